-- trim: stores a snapshot and raises the floor to it (STORE.md 4, 8).
-- ARGV 1-6 as everywhere, 2 and 3 being the snapshot's position; 7 the snapshot, 8 the history's bytes at the fold.
-- Called again at the floor itself it only removes the next slice of what lies below; the third element says if any is left.

local SLICE = 10000  -- entries a stream; 72,000 at once stop the server for 4 ms

--@state
local s = load()
if s.epoch == '' and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5]) == 0 then return {'gone'} end
s = whole(s)
local epoch, offset = ARGV[2], tonumber(ARGV[3])
settle(s, epoch, offset)
if not continues(s, epoch, offset) or offset < s.floor then
  return {'stale', s.epoch, s.top, s.floor}
end

-- What answered for something at or below the old floor: nobody who retries is that late. The holder's stays.
local function outdated(field, value, offsets)
  local kind, name = string.match(field, '^(.):(.*)$')
  if kind == 'w' then
    return name ~= s.run and (tonumber(string.match(value, '(%d+)$')) or math.huge) <= s.floor
  elseif kind == 'r' then
    return string.sub(value, 1, 4) == 'end ' and (tonumber(string.match(value, '(%d+)$')) or math.huge) <= s.floor
  elseif kind == 'a' then
    return string.sub(name, 1, #s.run + 1) ~= s.run .. '/' and string.sub(value, 1, 8) ~= 'pending '
      and (offsets[name] or 0) <= s.floor
  end
  return false
end

local rises = offset > s.floor
local snapshot, old = ARGV[7], {}
if rises then
  -- First, as the one write here that can fail.
  redis.call('SET', KEYS[4], s.epoch .. ' ' .. offset .. '\n' .. snapshot)
  local all, offsets = redis.call('HGETALL', KEYS[1]), {}
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'o:' then offsets[string.sub(all[i], 3)] = tonumber(all[i + 1]) end
  end
  for i = 1, #all, 2 do
    if outdated(all[i], all[i + 1], offsets) then
      old[#old + 1] = all[i]
      if string.sub(all[i], 1, 2) == 'a:' then old[#old + 1] = 'o:' .. string.sub(all[i], 3) end
    end
  end
  for i = 1, #old, 1000 do
    redis.call('HDEL', KEYS[1], unpack(old, i, math.min(i + 999, #old)))
  end
  s.floor = offset
end

local left = 0
local function cut(key, count)
  local above = (offset + 1) .. '-0'
  if count <= SLICE then return count - redis.call('XTRIM', key, 'MINID', above) end
  local gone = redis.call('XTRIM', key, 'MINID', '~', above, 'LIMIT', SLICE)
  -- It goes by whole nodes of up to 100 entries (and one not quite below the floor stays).
  if gone > SLICE - 1000 then left = 1 end
  return count - gone
end
s.events = cut(KEYS[2], s.events)
local opens = cut(KEYS[3], s.opens)
local open_bytes = s.opens > 0 and math.floor(s.open_bytes * opens / s.opens) or 0
if rises then
  -- What came since the fold stays. If an end unlinked deltas that the fold had counted, it seems less than it is, once.
  local since = math.max(s.event_bytes + s.open_bytes - tonumber(ARGV[8]), open_bytes)
  s.event_bytes = since - open_bytes + #snapshot
end
s.opens, s.open_bytes = opens, open_bytes
save(s)
keep(s, {[KEYS[4]] = rises or nil})
return {'ok', s.epoch, offset, left}
