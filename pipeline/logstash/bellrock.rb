# Logstash's ruby filter: where a record goes, and under which id. The tests run it on the samples beside it.

FIELDS_OF_ID = %w[node boot seq].freeze
STARTS = { "run" => "start", "sample" => "start", "job" => "time", "message" => "start" }.freeze
# Kinds of which there is so little that their indices go by months, whatever the period is.
MONTHLY = %w[message].freeze
LAYER = /\A[a-z0-9_]{1,32}\z/.freeze
# The layer that a kind of component belongs to; others are of layer "other".
COMPONENT_LAYERS = { "agent" => "agent" }.freeze
# What Logstash adds; not `event`, which a job event has too, so that event.original must not be made (pipeline.ecs_compatibility).
ADDED = %w[@timestamp @version host tags].freeze
EARLIEST_NS = 946_684_800_000_000_000

def register(params)
  @group = params["group"]
  @period = params["period"]
end

def filter(event)
  reason = reason_against(event)
  now = Time.now.utc
  if reason
    raw = event.get("message")
    raw = event.to_json unless raw.is_a?(String)
    node, boot, seq = FIELDS_OF_ID.map { |name| event.get(name) }
    event.to_hash.keys.each { |name| event.remove(name) }
    event.set("received_ns", now.to_i * 1_000_000_000 + now.nsec)
    event.set("reason", reason)
    event.set("raw", raw[0, 4096])
    event.set("node", node) if node.is_a?(String)
    event.set("boot", boot) if boot.is_a?(String)
    event.set("seq", seq) if seq.is_a?(Integer)
    event.set("[@metadata][index]", "bellrock-letter-all-#{@group}-#{period_of(now)}")
  else
    kind = event.get("kind")
    start = Time.at(event.get(STARTS[kind]) / 1_000_000_000).utc
    event.set("[@metadata][id]", "#{event.get('node')}/#{event.get('boot').rjust(16, '0').downcase}/#{event.get('seq')}")
    event.set("[@metadata][index]", "bellrock-#{kind}-#{layer_of(kind, event)}-#{@group}-#{period_of(start, kind)}")
    # When a job event came tells whoever follows them for how long it is new.
    (kind == "job" ? ADDED - ["@timestamp"] : ADDED).each { |name| event.remove(name) }
  end
  [event]
end

def reason_against(event)
  tags = event.get("tags")
  return "no JSON: so says Logstash" if tags.is_a?(Array) && tags.include?("_jsonparsefailure")
  kind = event.get("kind")
  return "kind: expected one of run, sample, job, message" unless kind.is_a?(String) && STARTS.key?(kind)
  node, boot, seq = FIELDS_OF_ID.map { |name| event.get(name) }
  return "node: expected string of 1 to 255 characters" unless node.is_a?(String) && node.length.between?(1, 255)
  return "boot: expected string of 1 to 16 hex digits" unless boot.is_a?(String) && boot =~ /\A[0-9a-fA-F]{1,16}\z/
  return "seq: expected int64 of at least 1" unless seq.is_a?(Integer) && seq >= 1
  start = event.get(STARTS[kind])
  return "times: expected ns since the year 2000" unless start.is_a?(Integer) && start >= EARLIEST_NS && start < 2**63
  return "layer: expected a name" unless layer_of(kind, event) =~ LAYER
  nil
end

def layer_of(kind, event)
  return "job" if kind == "job"
  return "log" if kind == "message"
  return COMPONENT_LAYERS.fetch(event.get("component"), "other") if kind == "sample"
  name = event.get("layer")
  name.is_a?(String) ? name : ""
end

def period_of(time, kind = nil)
  case MONTHLY.include?(kind) ? "month" : @period
  when "day" then time.strftime("%Y.%m.%d")
  when "week" then time.strftime("%G.w%V")
  else time.strftime("%Y.%m")
  end
end
