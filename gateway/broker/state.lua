-- What the scripts share: the state and the rules of STORE.md 1 to 4. Stands in each of them where it says @state.
-- Three things may be written before a script's checks are through, as each is whole by itself: a lost history begun
-- anew, a new epoch, and a deadline brought back.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function load()
  local f = redis.call('HMGET', KEYS[1],
    'epoch', 'server', 'floor', 'lineage', 'd', 'log', 'lease', 'people', 'open', 'latest', 'gone')
  if not f[1] then
    return {epoch = '', server = '', floor = 0, lineage = '', top = 0, events = 0, opens = 0, event_bytes = 0,
            open_bytes = 0, mark = '', log = '0 ', run = '', token = '', people = 0, open = '', latest = 0,
            gone = ''}
  end
  local s = {epoch = f[1], server = f[2], floor = tonumber(f[3]), lineage = f[4], log = f[6], run = '', token = '',
             people = tonumber(f[8]), open = f[9], latest = tonumber(f[10]), gone = f[11] or ''}
  local top, events, opens, event_bytes, open_bytes, mark = string.match(f[5], '^(%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  s.top, s.events, s.opens = tonumber(top), tonumber(events), tonumber(opens)
  s.event_bytes, s.open_bytes, s.mark = tonumber(event_bytes), tonumber(open_bytes), mark
  if f[7] ~= '' then
    local run, token, deadline, length = string.match(f[7], '^(%S+) (%S+) (%d+) (%d+)$')
    s.run, s.token, s.deadline, s.length = run, token, tonumber(deadline), tonumber(length)
  end
  return s
end

local function fields(s)
  local held = s.run ~= ''
  local all = {
    'epoch', s.epoch, 'server', s.server, 'floor', s.floor, 'lineage', s.lineage, 'log', s.log,
    'people', s.people, 'open', s.open, 'latest', s.latest,
    'd', table.concat({s.top, s.events, s.opens, s.event_bytes, s.open_bytes, s.mark}, ' '),
    'lease', held and table.concat({s.run, s.token, s.deadline, s.length}, ' ') or '',
    -- Only a holder's append may take the short way: the last mark in d is the holder's.
    'c', held and table.concat({s.epoch, s.server, s.run, s.token}, ' ') or '',
  }
  if s.gone ~= '' then
    all[#all + 1] = 'gone'
    all[#all + 1] = s.gone
  end
  return all
end

-- All keys of a topic have one deadline, never before the latest deadline inside.
local function keep(s, born)
  local ttl = tonumber(ARGV[6])
  local least = s.latest - now
  if string.byte(ARGV[6]) ~= 45 then
    for i = 1, 6 do
      if ttl == 0 then redis.call('PERSIST', KEYS[i]) else redis.call('PEXPIRE', KEYS[i], math.max(ttl, least)) end
    end
    return
  end
  local left = redis.call('PTTL', KEYS[1])
  if left == -1 then
    if not born[KEYS[1]] or ttl == 0 then return end
    left = -ttl
  elseif left >= least then
    for key in pairs(born) do redis.call('PEXPIRE', key, left) end
    return
  end
  for i = 1, 6 do redis.call('PEXPIRE', KEYS[i], math.max(left, least)) end
end

local function save(s)
  redis.call('HSET', KEYS[1], unpack(fields(s)))
end

-- Brings a lease's deadline back that lies further ahead than the lease is long: the server's clock was set back, and
-- a dead run would hold its topic for as long as that was.
local function sober(s)
  if s.deadline > now + s.length then
    s.deadline = now + s.length
    save(s)
  end
end

local function begin(s)
  s.epoch, s.server = ARGV[4], ARGV[1]
  save(s)
  keep(s, {[KEYS[1]] = true})
end

-- A history with a part gone (evicted, deleted) is begun anew: a part must never pass for the whole.
local function whole(s)
  local broken
  if s.epoch == '' then
    -- Not the blobs: they are written before the first event that refers to them.
    broken = redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5]) > 0
  else
    broken = redis.call('XLEN', KEYS[2]) ~= s.events or redis.call('XLEN', KEYS[3]) ~= s.opens
      or (s.floor > 0 and redis.call('EXISTS', KEYS[4]) == 0)
  end
  if not broken then return s end
  -- The archive, too: its seqs are about to be given anew.
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
  local gone = s.gone
  s = load()
  s.gone = gone
  begin(s)
  return s
end

-- Opens a new epoch where offsets may have gone back: on another server, or proved by a position above the top.
local function settle(s, epoch, offset)
  if s.epoch == '' or (s.server == ARGV[1] and not (epoch == s.epoch and offset > s.top)) then return end
  local lineage = {s.epoch .. ':' .. s.top}
  for old in string.gmatch(s.lineage, '[^,]+') do
    if #lineage < 16 then lineage[#lineage + 1] = old end
  end
  s.lineage, s.epoch, s.server = table.concat(lineage, ','), ARGV[4], ARGV[1]
  if s.run ~= '' then
    -- The old deadline came back with the data.
    s.deadline = now + s.length
    s.latest = math.max(s.latest, s.deadline)
  end
  save(s)
  keep(s, {})
end

-- Whether a run wrote to a history of this topic that was deleted: the names of those, and of the run that held it, stay.
local function deleted(s, epoch, run)
  return s.gone ~= '' and (string.find(s.gone, ' ' .. epoch .. ' ', 1, true) or string.find(s.gone, ' /' .. run .. ' ', 1, true))
end

-- Whether what was read or written up to a position is the beginning of this history.
local function continues(s, epoch, offset)
  if epoch == '' then return offset == 0 end
  if epoch == s.epoch then return offset <= s.top end
  for name, last in string.gmatch(s.lineage, '([^:,]+):(%d+)') do
    if name == epoch then return offset <= tonumber(last) end
  end
  return false
end

-- The answer to a writer whose position does not continue.
local function restore(s, writer)
  if s.epoch == '' then begin(s) end
  local known = redis.call('HGET', KEYS[1], 'w:' .. writer)
  local seq, hash = string.match(s.log, '^(%d+) (.*)$')
  return {'restore', s.epoch, s.top, seq, hash, known and string.match(known, '^%S+') or '', s.run,
          string.sub(s.open, 2, -2)}
end

-- Where a run's end stands, false while it has none.
local function ended(run)
  local fate = redis.call('HGET', KEYS[1], 'r:' .. run)
  return fate and string.match(fate, '^end (.*)$')
end
