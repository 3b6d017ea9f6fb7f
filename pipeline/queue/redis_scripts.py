"""What Redis does in one step. KEYS[1] is always the lease, ARGV[1] our token, ARGV[2] how long it is to last, ms.

Where memory is out Redis refuses what may add to it, a script's SET too: but who consumes frees memory, and has to be let (`allow-oom`).
"""

NOT_OURS = -1

_OURS = f"""#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {NOT_OURS} end
"""
_RENEW = "redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"

# ARGV[3]: a token that was ours before. Gives who has it, or nil: we have it now.
HOLD = """#!lua flags=allow-oom
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[3] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return nil
"""

KEEP = _OURS + _RENEW + "return 1\n"

# KEYS[2]: the list, KEYS[3]: what it is to be called. ARGV[3]: fewer are left alone. Gives how many were taken.
TAKE = (
    _OURS
    + _RENEW
    + """local length = redis.call('LLEN', KEYS[2])
if length < tonumber(ARGV[3]) then return 0 end
if redis.call('RENAMENX', KEYS[2], KEYS[3]) == 0 then
  return redis.error_reply('ERR ' .. KEYS[3] .. ' has come to be there meanwhile, and nobody but us writes such keys')
end
return length
"""
)

# KEYS[2]: a taken list. ARGV[3]: how many of its head are stored.
DONE = (
    _OURS
    + _RENEW
    + """redis.call('LTRIM', KEYS[2], ARGV[3], -1)
return 1
"""
)

RELEASE = (
    _OURS
    + """redis.call('DEL', KEYS[1])
return 1
"""
)
