"""The store on Elasticsearch: `pipeline.store.elastic.store.ElasticsearchStore`."""
