# Runs bellrock.rb as Logstash's ruby filter would: events as JSON lines in, [metadata, event] out.
require "json"
load ARGV[0]

class Event
  def initialize(fields)
    @fields = fields
    @metadata = {}
  end
  attr_reader :metadata

  def get(name) = @fields[name]

  def set(name, value)
    found = /\A\[@metadata\]\[(\w+)\]\z/.match(name)
    found ? @metadata[found[1]] = value : @fields[name] = value
  end

  def remove(name) = @fields.delete(name)
  def to_hash = @fields.dup
  def to_json(*) = @fields.to_json
end

register("group" => "g1", "period" => ARGV[1])
STDIN.each_line do |line|
  fields = begin
    JSON.parse(line)
  rescue JSON::ParserError
    { "message" => line.chomp, "tags" => ["_jsonparsefailure"] }
  end
  event = Event.new({ "@timestamp" => "now", "@version" => "1" }.merge(fields))
  raise "one event" unless filter(event).length == 1
  puts JSON.generate([event.metadata, event.to_hash])
end
