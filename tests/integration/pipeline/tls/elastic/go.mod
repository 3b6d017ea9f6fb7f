// Elastic's own lumberjack v2 client and server, for the tests of our two ends. Compress is pinned to a version that Debian's Go builds.
module bellrock/tests/elastic

go 1.18

require github.com/elastic/go-lumber v0.1.0

require github.com/klauspost/compress v1.16.7 // indirect
