-- append: numbers, stores and publishes events in one step (STORE.md 2, 3, 7, 8).
-- KEYS: state, events, open, snap, archive, blobs. ARGV: 1 server id, 2 and 3 the writer's position, 4 epoch to open,
-- 5 PUBLISH or SPUBLISH, 6 ttl, 7 writer, 8 append seq, 9 run, 10 token, 11 first log seq, 12 hash before, 13 next seq
-- and hash after, 14 max bytes, 15 lease ms, 16 number of conditions, 17 of changes; then these, then the entries.

local call = redis.call
local state, events, open = KEYS[1], KEYS[2], KEYS[3]
local writer, mark, run, token = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local log_before, lease = ARGV[11], ARGV[15]
local conditions, changes = tonumber(ARGV[16]), tonumber(ARGV[17])
local first_change = 18 + 3 * conditions
local first_entry = first_change + 2 * changes

--@state
local epoch, offset = ARGV[2], tonumber(ARGV[3])
local set, unset = {}, {}  -- changed state fields
local s = whole(load())
local known = call('HGET', state, 'w:' .. writer)
if known then
  local known_mark, place = string.match(known, '^(%S+) (.*)$')
  if known_mark == mark then return {'dup', place, s.people} end
end

-- Before everything that could have the run write its history again.
if run ~= '' and deleted(s, epoch, run) then return {'deleted', s.epoch, s.top} end

settle(s, epoch, offset)
-- The floor does not matter to a writer: what it wrote below is in the snapshot.
if not continues(s, epoch, offset) then return restore(s, writer) end

if run ~= '' then
  local place = ended(run)
  if place then return {'ended', place} end
end

if lease ~= '' then
  if s.run ~= '' and (s.run ~= run or s.token ~= token) then
    sober(s)
    return {'busy', s.run, s.deadline, s.epoch, s.top}
  end
  -- The log alone does not show all that a run before may have left: whoever takes over has read up to its end.
  if s.run == '' and offset < tonumber(call('HGET', state, 'free') or 0) then return restore(s, writer) end
  local last = call('HGET', state, 'w:' .. run)
  s.run, s.token, s.length, s.mark = run, token, tonumber(lease), last and string.match(last, '^%S+') or ''
  s.deadline = now + s.length
  s.latest = math.max(s.latest, s.deadline)
  set = {'r:' .. run, 'run'}
elseif (run ~= '' or log_before ~= '') and (s.run ~= run or s.token ~= token) then
  return {'fenced', s.epoch, s.top, s.run}
end

for i = first_change, first_entry - 1, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  local approval = string.match(field, '^a:(.*)$')
  if value == '' then
    unset[#unset + 1] = field
    if approval then unset[#unset + 1] = 'o:' .. approval end
  else
    set[#set + 1] = field
    set[#set + 1] = value
    if approval then
      s.latest = math.max(s.latest, tonumber(string.match(value, '^%S+ (%d+)') or 0))
      -- Its last event's offset, for trim.
      set[#set + 1] = 'o:' .. approval
      set[#set + 1] = s.top + (#ARGV - first_entry + 1) / 4
    end
  end
end
if log_before ~= '' and s.log ~= log_before .. ' ' .. ARGV[12] then
  local seq, hash = string.match(s.log, '^(%d+) (.*)$')
  return {'conflict', seq, hash}
end

for i = 18, first_change - 1, 3 do
  local field, op, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local found = call('HGET', state, field) or ''
  local holds
  if op == '=' then
    holds = found == value
  elseif op == '!' then
    holds = found == ''
  else
    -- A deadline of 0 never passes.
    local deadline = tonumber(string.match(found, '^%S+ (%d+)'))
    local ahead = deadline == 0 or (deadline and deadline > now)
    holds = deadline and ahead == (op == '>')
  end
  if not holds then return {'cond', field, found, s.epoch, s.top} end
end

-- The publication is put together from its parts in one go, and a number made text once: that is what costs here.
local parts, n = {''}, 1
local added, ends = 0, false
for i = first_entry, #ARGV, 4 do
  added = added + #ARGV[i + 3]
  ends = ends or ARGV[i] == 'x'
  parts[n + 1], parts[n + 2] = ARGV[i + 1], ','
  n = n + 2
end
parts[n] = '\n'
-- A run's end is always taken: refused, the run would pass for lost.
if s.event_bytes + s.open_bytes + added > tonumber(ARGV[14]) and not ends then
  return {'bound', s.event_bytes + s.open_bytes}
end

local had_events, had_open = s.events > 0, s.opens > 0
local before_data = '{"push":{"channel":"' .. string.match(state, '{(.*)}') .. '","pub":{"data":'
local first, last = string.format('%d', s.top + 1), nil
for i = first_entry, #ARGV, 4 do
  local kind, message, data = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  s.top = s.top + 1
  last = string.format('%d', s.top)
  if kind == 'd' then
    call('XADD', open, last .. '-0', 'd', data)
    s.opens, s.open_bytes = s.opens + 1, s.open_bytes + #data
    if not string.find(s.open, ' ' .. message .. ' ', 1, true) then
      s.open = (s.open == '' and ' ' or s.open) .. message .. ' '
    end
  else
    call('XADD', events, last .. '-0', 'd', data)
    s.events, s.event_bytes = s.events + 1, s.event_bytes + #data
    local from, to = string.find(s.open, ' ' .. message .. ' ', 1, true)
    if kind == 'e' and from then
      s.open = string.sub(s.open, 1, from) .. string.sub(s.open, to + 1)
      if s.open == ' ' then
        -- Deltas are of no use once all messages have ended: the ends hold their text.
        call('UNLINK', open)
        s.open, s.opens, s.open_bytes, had_open = '', 0, 0, false
      end
    end
  end
  parts[n + 1], parts[n + 2], parts[n + 3], parts[n + 4] = before_data, data, ',"offset":', last
  parts[n + 5] = '}}}\n'
  n = n + 5
end
parts[n] = '}}}'

local born = {[state] = s.epoch == '' or nil, [events] = not had_events and s.events > 0 or nil,
              [open] = not had_open and s.opens > 0 or nil}
if s.epoch == '' then s.epoch = ARGV[4] end
local place = s.epoch .. ' ' .. first .. ' ' .. last
parts[1] = place .. ' '
local by_people = string.sub(writer, 1, 2) == 'u/'
s.server = ARGV[1]
if log_before ~= '' then s.log = ARGV[13] end
if by_people then s.people = s.top end
if writer == run then s.mark = mark end
if ends then
  s.run = ''
  set[#set + 1] = 'r:' .. run
  set[#set + 1] = 'end ' .. place
  set[#set + 1] = 'free'
  set[#set + 1] = last
end
call('HSET', state, unpack(fields(s)))
call('HSET', state, 'w:' .. writer, mark .. ' ' .. place, unpack(set))
if #unset > 0 then call('HDEL', state, unpack(unset)) end
keep(s, born)

call(ARGV[5], state, table.concat(parts))
if by_people then call(ARGV[5], state .. ':ctl', s.epoch .. ' ' .. last) end
return {'ok', place, s.people}
