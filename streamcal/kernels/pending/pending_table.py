# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Pending predictions in columns, in the order of issue, with an index of their ids.

A row has a *place*: the number of rows added before it. The oldest row leaves first, so that the places of all rows
follow one another.

**Blocks.** `ROWS` places in a row share a block, which has an array for each column. Columns that most joins never need
(a time of issue other than the clock, a weight, levels, outcomes) are made when the first row of a block needs them.

**Ids.** Whole numbers of up to 64 bits are stored as such, UUIDs as 16 bytes, other texts in a pool of the block.

**Index.** Rows whose hashes fall into one bucket are linked, the newest first. Places fall along such a chain, and a
place before the first row ends it: rows that leave need not be taken out. Buckets are added one by one, by linear
hashing (W. Litwin, Linear hashing, VLDB 1980), so that no call waits for a table to be rebuilt.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.string import memcpy

SHIFT = cython.declare(cython.longlong, 13)
ROWS = cython.declare(cython.longlong, 8192)
LOW = cython.declare(cython.longlong, 8191)
LOAD = cython.declare(cython.longlong, 2)
"""Rows of a bucket, on average."""
HEADS = cython.declare(cython.longlong, 4096)
"""Buckets whose heads are in one array."""
CODES = cython.declare(cython.longlong, 4294967295)
"""A link is 1 + the place modulo this number, 0 for none."""
POSITIVE, NEGATIVE, KIND = cython.declare(cython.int, 1), cython.declare(cython.int, 2), cython.declare(cython.int, 12)
"""Bits of a row's flags: its outcomes, and the kind of its id."""
WHOLE, DIGITS, TEXT, SIXTEEN = (
    cython.declare(cython.int, 0),
    cython.declare(cython.int, 4),
    cython.declare(cython.int, 8),
    cython.declare(cython.int, 12),
)
"""Kinds of ids: a whole number, a text that is one of up to 64 bits, another text, a UUID."""
AHEAD = cython.declare(cython.Py_ssize_t, 64)
"""Ids that are looked at together."""
CHAIN = cython.declare(cython.int, 3)
"""Rows of a chain that are read ahead: most chains have no more."""
MOST_FIELDS = cython.declare(cython.Py_ssize_t, 64)
"""Levels of further fields are stored as one."""
VERSION, OTHERS, FIRST_FIELD = (
    cython.declare(cython.Py_ssize_t, 0),
    cython.declare(cython.Py_ssize_t, 1),
    cython.declare(cython.Py_ssize_t, 2),
)
"""Columns of small numbers: of versions, of all levels of fields without a column, and of each field."""
ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
SEED = cython.declare(cython.ulonglong, hash("pending") & 0xFFFFFFFFFFFFFFFF)
"""Another in each process, so that nobody can send ids of one bucket."""
FIRST_FACTOR = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
SECOND_FACTOR = cython.declare(cython.ulonglong, 0xD6E8FEB86659FD93)
#: The optional columns of numbers, and what a row has that needs none.
OPTIONAL = ("t", "w", "when", "outcome_w", "number", "cell")
nan = cython.declare(cython.double, float("nan"))


class Block:
    """The columns of some rows.

    `at` is the clock at issue, `t` the time of issue where one is another, `when`, `cell` and `outcome_w` are of the
    outcome. Without `number`, numbers follow one another from `first_number`.
    """

    def __init__(self):
        self.at, self.score, self.p = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
        self.key, self.link = np.empty(ROWS, dtype=np.int64), np.empty(ROWS, dtype=np.uint32)
        self.flags = np.empty(ROWS, dtype=np.uint8)
        self.clear()

    def clear(self):
        """Drop the optional columns."""
        self.t = self.w = self.when = self.outcome_w = self.number = self.cell = self.ends = self.texts = None
        self.levels, self.records, self.loose = [], None, None
        self.size, self.first_number = -1, 0


class Heads:
    """The newest row of each of some buckets."""

    def __init__(self):
        self.codes = np.zeros(HEADS, dtype=np.uint32)


class Levels:
    """The number of the version, or of a level, of each row of a block; 0 for none."""

    def __init__(self):
        self.numbers = np.zeros(ROWS, dtype=np.int32)


class Names:
    """Small numbers for the values of a column that are in use; 0 is for None."""

    def __init__(self):
        self.values, self._numbers, self._uses, self._free = [None], {}, [0], []

    def take(self, value):
        """Return the number of a value, which one more row has."""
        return self.take_many(value, 1)

    def take_many(self, value, rows):
        """Return the number of a value, which this many more rows have."""
        if value is None or rows == 0:
            return 0
        number = self._numbers.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.values[number] = value
            else:
                number = len(self.values)
                self.values.append(value)
                self._uses.append(0)
            self._numbers[value] = number
        self._uses[number] += rows
        return number

    def give_back(self, number):
        """Note that one row fewer has the value of this number."""
        if number:
            self._uses[number] -= 1
            if self._uses[number] == 0:
                del self._numbers[self.values[number]]
                self.values[number] = None
                self._free.append(number)


class PendingTable:
    """Rows of predictions from place `first` to before `end`.

    Parameters
    ----------
    hash_bits : int
        Bits of the hash of an id that are used: 64, and fewer in tests of collisions.
    """

    def __init__(self, hash_bits=64):
        self._hash_mask = (1 << hash_bits) - 1
        self.first = self.end = self._gone = 0
        self._blocks, self._spare = [], None
        self._heads, self._low, self._split = [Heads()], 63, 0
        self.names, self.fields, self._columns = [Names(), Names()], [], {}
        self._kind, self._key = 0, 0
        self._keys = np.zeros(AHEAD, dtype=np.int64) if cython.compiled else [0] * AHEAD
        self._kinds = np.zeros(AHEAD, dtype=np.int32) if cython.compiled else [0] * AHEAD
        self._places = np.zeros(AHEAD, dtype=np.int64) if cython.compiled else None

    def __len__(self):
        return self.end - self.first

    def block(self, place):
        """Return the block of a place."""
        return self._blocks[(place >> SHIFT) - self._gone]

    # -- the index -------------------------------------------------------------------------------------------------

    def _bucket(self, key):
        """Return the bucket of a key."""
        h: cython.ulonglong = (cython.cast(cython.ulonglong, key) ^ SEED) & ALL
        h = (h * FIRST_FACTOR) & ALL
        h ^= h >> 32
        h = (h * SECOND_FACTOR) & ALL
        h = (h ^ (h >> 32)) & self._hash_mask
        bucket: cython.ulonglong = h & self._low
        return h & (2 * self._low + 1) if bucket < self._split else bucket

    def _place(self, code, below):
        """Return the place that a link means, which is smaller than `below`; −1 for none, or one that has left."""
        place: cython.longlong
        if code == 0:
            return -1
        place = cython.cast(cython.longlong, code) - 1 - self.first % CODES
        place = self.first + (place if place >= 0 else place + CODES)
        return place if place < below else -1

    def _look_at(self, id):
        """Set `_kind` and `_key` to those of an id."""
        size: cython.Py_ssize_t
        if type(id) is int:
            self._kind, self._key = WHOLE, id
            return
        size = len(id)
        if 16 <= size <= 20 and id.isdigit() and id.isascii() and id[0] != "0":
            number = int(id)
            if number < 18446744073709551616:
                self._kind = DIGITS
                self._key = number if number < 9223372036854775808 else number - 18446744073709551616
                return
        self._kind = SIXTEEN if size == 36 and _is_uuid(id) else TEXT
        self._key = hash(id) & self._hash_mask if self._hash_mask < ALL else hash(id)

    def _same(self, block, row, id):
        """Return whether the id of a row with the key looked at last is this one."""
        if block.flags[row] & KIND != self._kind:
            return False
        return self._kind == WHOLE or self._kind == DIGITS or self._id(block, row) == id

    def look_ahead(self, ids, begin):
        """Look at the next `AHEAD` ids of a list, for `find_ahead` and `add_ahead`.

        What is read of the index for one id is read for all of them at once, so that the processor waits
        for memory once.
        """
        k: cython.Py_ssize_t
        row: cython.Py_ssize_t
        bucket: cython.ulonglong
        size: cython.Py_ssize_t = min(len(ids) - begin, AHEAD)
        for k in range(size):
            self._look_at(ids[begin + k])
            self._keys[k], self._kinds[k] = self._key, self._kind
        if not cython.compiled:
            return
        for k in range(size):
            bucket = self._bucket(self._keys[k])
            heads: Heads = self._heads[bucket // HEADS]
            self._places[k] = self._place(heads.codes[bucket % HEADS], self.end)
        for _ in range(CHAIN):
            for k in range(size):
                if self._places[k] >= 0:
                    block: Block = self.block(self._places[k])
                    row = self._places[k] & LOW
                    self._seen ^= block.key[row]
                    self._places[k] = self._place(block.link[row], self._places[k])

    def find_ahead(self, k, id):
        """Return the place of an id that is `k` after the first one looked at, −1 where there is none."""
        self._key, self._kind = self._keys[k], self._kinds[k]
        return self._find(id)

    def add_ahead(self, k, id, p, score, t, version, keys, w, at, number, record):
        """Do `add` with an id that is `k` after the first one looked at."""
        self._key, self._kind = self._keys[k], self._kinds[k]
        return self._add(id, p, score, t, version, keys, w, at, number, record)

    def place_of(self, id):
        """Return the place of an id, −1 where there is none."""
        self._look_at(id)
        return self._find(id)

    def _find(self, id):
        """Return the place of the id looked at last, −1 where there is none."""
        bucket: cython.ulonglong
        place: cython.longlong
        row: cython.Py_ssize_t
        bucket = self._bucket(self._key)
        heads: Heads = self._heads[bucket // HEADS]
        place = self._place(heads.codes[bucket % HEADS], self.end)
        while place >= 0:
            block: Block = self.block(place)
            row = place & LOW
            if block.key[row] == self._key and self._same(block, row, id):
                return place
            place = self._place(block.link[row], place)
        return -1

    def _enter(self, place, block, row):
        """Put a row into its chain."""
        bucket: cython.ulonglong = self._bucket(block.key[row])
        heads: Heads = self._heads[bucket // HEADS]
        block.link[row] = heads.codes[bucket % HEADS]
        heads.codes[bucket % HEADS] = place % CODES + 1

    def _grow(self):
        """Add a bucket: divide the rows of the next one to be split between both."""
        lower: cython.ulonglong = self._split
        upper: cython.ulonglong = self._split + self._low + 1
        bucket: cython.ulonglong
        place: cython.longlong
        next_place: cython.longlong
        last: cython.longlong[2] = [-1, -1]
        which: cython.int
        if upper // HEADS == cython.cast(cython.ulonglong, len(self._heads)):
            self._heads.append(Heads())
        heads: Heads = self._heads[lower // HEADS]
        code: cython.uint = heads.codes[lower % HEADS]
        heads.codes[lower % HEADS] = 0
        self._split += 1
        place = self._place(code, self.end)
        while place >= 0:
            block: Block = self.block(place)
            row: cython.Py_ssize_t = place & LOW
            code = block.link[row]
            next_place = self._place(code, place)
            block.link[row] = 0
            bucket = self._bucket(block.key[row])
            which = 0 if bucket == lower else 1
            if last[which] < 0:
                heads = self._heads[bucket // HEADS]
                heads.codes[bucket % HEADS] = place % CODES + 1
            else:
                before: Block = self.block(last[which])
                before.link[last[which] & LOW] = place % CODES + 1
            last[which] = place
            place = next_place
        if self._split > self._low:
            self._low, self._split = 2 * self._low + 1, 0

    # -- rows ------------------------------------------------------------------------------------------------------

    def _next_block(self):
        """Return the block of the next row."""
        if self.end & LOW == 0 or not self._blocks:
            block: Block = Block() if self._spare is None else self._spare
            self._spare = None
            self._blocks.append(block)
            return block
        return self._blocks[len(self._blocks) - 1]

    def add(self, id, p, score, t, version, keys, w, at, number, record):
        """Add a prediction, and return its place; its id is not in the table.

        `record` is the bytes of what the method remembers of it, or None.
        """
        self._look_at(id)
        return self._add(id, p, score, t, version, keys, w, at, number, record)

    def _add(self, id, p, score, t, version, keys, w, at, number, record):
        """Add a prediction with the id looked at last."""
        place: cython.longlong = self.end
        row: cython.Py_ssize_t = place & LOW
        block: Block = self._next_block()
        block.at[row], block.score[row], block.p[row], block.key[row] = at, score, p, self._key
        block.flags[row] = self._kind
        if row == 0 or place == self.first:
            block.first_number = number - row
        if block.ends is not None or self._kind == TEXT or self._kind == SIXTEEN:
            self._add_text(block, row, id)
        if block.number is not None or number - row != block.first_number:
            if block.number is None:
                block.number = np.arange(block.first_number, block.first_number + ROWS)
            block.number[row] = number
        if block.t is not None or t != at:
            if block.t is None:
                block.t = np.array(block.at)
            block.t[row] = t
        if block.w is not None or w != 1.0:
            if block.w is None:
                block.w = np.ones(ROWS)
            block.w[row] = w
        if block.outcome_w is not None:
            block.outcome_w[row] = nan
        if block.cell is not None:
            block.cell[row] = 0
        if block.size != 0 or record is not None:
            self._add_record(block, row, record)
        if block.levels or version is not None or keys is not None:
            self._add_levels(block, row, version, keys)
        self.end = place + 1
        self._enter(place, block, row)
        if self.end - self.first > LOAD * cython.cast(cython.longlong, self._low + 1 + self._split):
            self._grow()
        return place

    def _add_text(self, block, row, id):
        """Store the text of an id, if it has one."""
        if block.ends is None:
            block.ends, block.texts = np.zeros(ROWS, dtype=np.uint32), bytearray()
        if self._kind == TEXT:
            block.texts += id.encode()
        elif self._kind == SIXTEEN:
            block.texts += bytes.fromhex(id.replace("-", ""))
        block.ends[row] = len(block.texts)

    def _add_record(self, block, row, record):
        """Store what is remembered: in one array, as long as all rows of the block have as much."""
        size: cython.Py_ssize_t = 0 if record is None else len(record)
        if block.size < 0 or (row == 0 and block.loose is None):
            block.size = size
            block.records = np.empty((ROWS, size), dtype=np.uint8) if size else None
        if block.loose is None and size != block.size:
            records_so_far = b"" if block.records is None else np.asarray(block.records)[:row].tobytes()
            width: cython.Py_ssize_t = block.size
            block.loose = [records_so_far[k * width : (k + 1) * width] or None for k in range(row)]
            block.records = None
        if block.loose is not None:
            block.size = -2
            block.loose.append(record)
        elif size and cython.compiled:
            memcpy(cython.address(block.records[row, 0]), cython.cast(cython.p_char, record), size)
        elif size:
            block.records[row] = np.frombuffer(record, dtype=np.uint8)

    def _add_levels(self, block, row, version, keys):
        """Store version and levels as small numbers."""
        column: cython.Py_ssize_t
        for column in range(len(block.levels)):
            if block.levels[column] is not None:
                levels: Levels = block.levels[column]
                levels.numbers[row] = 0
        if version is not None:
            self._set_level(block, row, VERSION, version)
        if keys is None:
            return
        own: dict = keys
        others = None
        for field, level in own.items():
            column = self._column_of(field)
            if column < 0:
                others = [*(others or ()), (field, level)]
                continue
            self._set_level(block, row, column, level)
        if others is not None:
            self._set_level(block, row, OTHERS, tuple(others))

    def _set_level(self, block, row, column, value):
        while len(block.levels) <= column:
            block.levels.append(None)
        if block.levels[column] is None:
            block.levels[column] = Levels()
        levels: Levels = block.levels[column]
        names: Names = self.names[column]
        levels.numbers[row] = names.take(value)

    def drop_first(self):
        """Remove the oldest row."""
        place: cython.longlong = self.first
        row: cython.Py_ssize_t = place & LOW
        if block_levels := self.block(place).levels:
            self._release(self.block(place), row)
        del block_levels
        self.first = place + 1
        if row == LOW or self.first == self.end:
            self._drop_block()

    def _drop_block(self):
        """Drop the first block, which has no row left."""
        block: Block = self._blocks.pop(0)
        if self.first == self.end:  # the next row begins a block
            self.first = self.end = ((self.end + LOW) >> SHIFT) << SHIFT
        self._gone = self.first >> SHIFT
        block.clear()
        self._spare = block

    def _release(self, block, row):
        """Give the small numbers of a row back."""
        column: cython.Py_ssize_t
        for column in range(len(block.levels)):
            if block.levels[column] is not None:
                levels: Levels = block.levels[column]
                names: Names = self.names[column]
                names.give_back(levels.numbers[row])

    # -- what a row has --------------------------------------------------------------------------------------------

    def id_at(self, place):
        """Return the id of a row."""
        return self._id(self.block(place), place & LOW)

    def _id(self, block, row):
        kind: cython.int = block.flags[row] & KIND
        if kind == WHOLE:
            return int(block.key[row])
        if kind == DIGITS:
            return str(int(block.key[row]) & 0xFFFFFFFFFFFFFFFF)
        begin: cython.Py_ssize_t = 0 if row == 0 else block.ends[row - 1]
        content = bytes(block.texts[begin : int(block.ends[row])])
        if kind == TEXT:
            return content.decode()
        text = content.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def at(self, place):
        """Return the clock at which a row was issued."""
        return float(self.block(place).at[place & LOW])

    def number(self, place):
        """Return the number of predictions issued before a row."""
        block: Block = self.block(place)
        row: cython.Py_ssize_t = place & LOW
        return block.first_number + row if block.number is None else int(block.number[row])

    def numbers(self, begin, end):
        """Return the numbers of rows as an array."""
        pieces = [np.zeros(0, dtype=np.int64)]
        while begin < end:
            upto = min(end, ((begin >> SHIFT) + 1) << SHIFT)
            block: Block = self.block(begin)
            row = begin & LOW
            if block.number is None:
                pieces.append(np.arange(block.first_number + row, block.first_number + row + upto - begin))
            else:
                pieces.append(np.array(np.asarray(block.number)[row : row + upto - begin]))
            begin = upto
        return np.concatenate(pieces)

    def issued(self, place):
        """Return id, probability, score, time, version, keys, weight, clock and number of a row."""
        block: Block = self.block(place)
        row: cython.Py_ssize_t = place & LOW
        at: cython.double = block.at[row]
        version = keys = None
        if block.levels:
            version, keys = self._levels(block, row)
        return (
            self._id(block, row),
            float(block.p[row]),
            float(block.score[row]),
            float(at if block.t is None else block.t[row]),
            version,
            keys,
            1.0 if block.w is None else float(block.w[row]),
            float(at),
            int(block.first_number + row if block.number is None else block.number[row]),
        )

    def level(self, block, row, column):
        """Return the version of a row, or its level in a column; None for none."""
        if column >= len(block.levels) or block.levels[column] is None:
            return None
        levels: Levels = block.levels[column]
        names: Names = self.names[column]
        return names.values[levels.numbers[row]]

    def _levels(self, block, row):
        """Return version and levels of a row."""
        column: cython.Py_ssize_t
        version, keys = None, {}
        for column in range(len(block.levels)):
            value = self.level(block, row, column)
            if value is None:
                continue
            if column == VERSION:
                version = value
            elif column == OTHERS:
                keys.update(value)
            else:
                keys[self.fields[column - FIRST_FIELD]] = value
        return version, keys or None

    def record(self, place):
        """Return the bytes of what is remembered of a row, or None."""
        block: Block = self.block(place)
        row: cython.Py_ssize_t = place & LOW
        if block.loose is not None:
            return block.loose[row]
        if block.records is None:
            return None
        if cython.compiled:
            return cython.cast(cython.p_char, cython.address(block.records[row, 0]))[: block.size]
        return block.records[row].tobytes()

    def outcome(self, place):
        """Return (positive, negative, time, cell, weight or None) of a row, or None."""
        block: Block = self.block(place)
        row: cython.Py_ssize_t = place & LOW
        flags: cython.int = block.flags[row] & (POSITIVE | NEGATIVE)
        if flags == 0:
            return None
        w: cython.double = nan if block.outcome_w is None else block.outcome_w[row]
        return (
            bool(flags & POSITIVE),
            bool(flags & NEGATIVE),
            float(block.when[row]),
            0 if block.cell is None else int(block.cell[row]),
            None if w != w else float(w),
        )

    def set_outcome(self, place, positive, negative, t, cell, w):
        """Set the outcome of a row."""
        block: Block = self.block(place)
        row: cython.Py_ssize_t = place & LOW
        if block.when is None:
            block.when = np.zeros(ROWS)
        block.when[row] = t
        if cell and block.cell is None:
            block.cell = np.zeros(ROWS, dtype=np.uint8)
        if block.cell is not None:
            block.cell[row] = cell
        if w is not None and block.outcome_w is None:
            block.outcome_w = np.full(ROWS, nan)
        if block.outcome_w is not None:
            block.outcome_w[row] = nan if w is None else w
        block.flags[row] = (block.flags[row] & KIND) | (POSITIVE if positive else 0) | (NEGATIVE if negative else 0)

    def set_record(self, place, record):
        """Replace the bytes of what is remembered of a row, or None."""
        block: Block = self.block(place)
        if block.loose is None:
            begin: cython.longlong = (place >> SHIFT) << SHIFT
            block.loose = [self.record(begin + row) for row in range(min(ROWS, self.end - begin))]
            block.records, block.size = None, -2
        block.loose[place & LOW] = record

    def turn_back(self, begin, end, latest, clock):
        """Set times of rows that are after `latest` to it, and their times of issue to `clock`, if they are later."""
        place: cython.longlong
        for place in range(begin, end):
            block: Block = self.block(place)
            row: cython.Py_ssize_t = place & LOW
            t: cython.double = block.at[row] if block.t is None else block.t[row]
            if t > latest or block.at[row] > latest:
                if block.t is None:
                    block.t = np.array(block.at)
                block.t[row], block.at[row] = min(t, clock), min(block.at[row], latest)

    # -- many rows -------------------------------------------------------------------------------------------------

    def columns(self, begin, end, copied=True):
        """Return the rows of places from `begin` to before `end` as columns, for `extend`; None for one of defaults.

        Unless they are copied, they may be the memory of the table.

        Beside the columns of a block these are `number`, the numbers of `levels` by column, `sizes` and `texts` of ids,
        and `records`, an array of one row for each, or a list.
        """
        pieces = []
        while begin < end:
            upto = min(end, ((begin >> SHIFT) + 1) << SHIFT)
            pieces.append(self._piece(self.block(begin), begin & LOW, (begin & LOW) + upto - begin, copied))
            begin = upto
        if len(pieces) == 1:
            return pieces[0]
        columns = {name: _joined(name, pieces) for name in _COLUMNS}
        columns["texts"] = None if columns["sizes"] is None else b"".join([one["texts"] or b"" for one in pieces])
        columns["levels"] = [
            _joined(k, [{"at": one["at"], k: one["levels"][k] if k < len(one["levels"]) else None} for one in pieces])
            for k in range(max([len(one["levels"]) for one in pieces], default=0))
        ]
        records = [one["records"] for one in pieces]
        widths = {None if one is None else -1 if type(one) is list else one.shape[1] for one in records}
        if widths <= {None}:
            columns["records"] = None
        elif len(widths) == 1 and -1 not in widths:
            columns["records"] = np.concatenate(records)
        else:
            columns["records"] = [record for one in pieces for record in _as_list(one["records"], len(one["at"]))]
        return columns

    def _piece(self, block, begin, end, copied=True):
        """Return rows of a block as `columns` does."""
        array = np.array if copied else np.asarray
        numbers = np.arange(block.first_number + begin, block.first_number + end)
        piece = {"number": numbers if block.number is None else array(np.asarray(block.number)[begin:end])}
        for name in ("at", "score", "p", "key", "flags", "t", "w", "when", "outcome_w", "cell"):
            column = getattr(block, name)
            piece[name] = None if column is None else array(np.asarray(column)[begin:end])
        piece["levels"] = [
            None if levels is None else np.array(np.asarray(levels.numbers)[begin:end]) for levels in block.levels
        ]
        piece["sizes"] = piece["texts"] = None
        if block.ends is not None:
            ends = np.asarray(block.ends)[:end].astype(np.int64)
            piece["sizes"] = np.diff(ends, prepend=0)[begin:]
            first = int(ends[begin - 1]) if begin else 0
            piece["texts"] = bytes(block.texts[first : int(ends[end - 1])])
        if block.loose is not None:
            piece["records"] = block.loose[begin:end]
        else:
            piece["records"] = None if block.records is None else array(np.asarray(block.records)[begin:end])
        return piece

    def extend(self, columns):
        """Add rows that `columns` returned, with small numbers of this table; None stands for columns of defaults.

        Their ids are found once `enter_all` has been called.
        """
        begin, size = 0, len(columns["at"])
        texts = 0
        while begin < size:
            row = self.end & LOW
            count = min(size - begin, ROWS - row)
            rows = slice(begin, begin + count)
            texts = self._extend_block(self._next_block(), row, rows, columns, texts)
            self.end += count
            begin += count

    def enter_all(self):
        """Make the index of all rows: buckets are added while they are empty, so that none is divided."""
        place: cython.longlong
        for heads in self._heads:
            _clear(heads)
        while self.end - self.first > LOAD * cython.cast(cython.longlong, self._low + 1 + self._split):
            self._grow()
        for place in range(self.first, self.end):
            self._enter(place, self.block(place), place & LOW)

    def _extend_block(self, block, row, rows, columns, texts):
        """Write rows of columns to a block, from a row on; return how much of the texts was used."""
        count = rows.stop - rows.start
        to = slice(row, row + count)
        for name in ("at", "score", "p", "key", "flags"):
            np.asarray(getattr(block, name))[to] = columns[name][rows]
        numbers = columns["number"][rows]
        if row == 0:
            block.first_number = int(numbers[0])
        follow = np.arange(block.first_number, block.first_number + ROWS)
        if block.number is None and not np.array_equal(numbers, follow[to]):
            block.number = follow
        if block.number is not None:
            np.asarray(block.number)[to] = numbers
        defaults = {"t": np.asarray(block.at), "w": 1.0, "when": 0.0, "outcome_w": nan, "cell": 0}
        for name, default in defaults.items():
            column = columns[name]
            if column is not None and getattr(block, name) is None:
                made = np.empty(ROWS, dtype=np.uint8 if name == "cell" else np.float64)
                made[:] = default
                setattr(block, name, made)
            if getattr(block, name) is not None:
                own = default[to] if name == "t" else default
                np.asarray(getattr(block, name))[to] = own if column is None else column[rows]
        for k in range(max(len(block.levels), len(columns["levels"]))):
            if k == len(block.levels):
                block.levels.append(None)
            column = columns["levels"][k] if k < len(columns["levels"]) else None
            if column is not None and block.levels[k] is None:
                block.levels[k] = Levels()
            if block.levels[k] is not None:
                np.asarray(block.levels[k].numbers)[to] = 0 if column is None else column[rows]
        sizes = columns["sizes"]
        if sizes is not None and block.ends is None:
            block.ends, block.texts = np.zeros(ROWS, dtype=np.uint32), bytearray()
        if block.ends is not None:
            own = np.zeros(count, dtype=np.int64) if sizes is None else sizes[rows]
            np.asarray(block.ends)[to] = len(block.texts) + np.cumsum(own)
            total = int(own.sum())
            if total:
                block.texts += columns["texts"][texts : texts + total]
            texts += total
        self._extend_records(block, row, rows, columns["records"])
        return texts

    def _extend_records(self, block, row, rows, records):
        """Write what is remembered of rows to a block, from a row on."""
        count = rows.stop - rows.start
        width = 0 if records is None else -1 if type(records) is list else records.shape[1]
        if row == 0 and width >= 0:
            block.size = width
            block.records = np.empty((ROWS, width), dtype=np.uint8) if width else None
        if width >= 0 and width == block.size:
            if width:
                np.asarray(block.records)[row : row + count] = records[rows]
            return
        for k, one in enumerate(_as_list(None if records is None else records[rows], count), row):
            self._add_record(block, k, one)

    def keep(self, begin, kept):
        """Keep those of the rows from a place on for which `kept` is True."""
        pieces, at = [], begin
        while at < self.end:
            upto = min(self.end, ((at >> SHIFT) + 1) << SHIFT)
            block: Block = self.block(at)
            rows = np.asarray(kept[at - begin : upto - begin])
            if block.levels:
                for row in np.flatnonzero(~rows).tolist():
                    self._release(block, (at & LOW) + row)
            pieces.append(_kept(self._piece(block, at & LOW, (at & LOW) + upto - at), rows))
            at = upto
        del self._blocks[((begin + LOW) >> SHIFT) - self._gone :]
        self.end = begin
        if begin & LOW:
            self._truncate(self._blocks[len(self._blocks) - 1], begin & LOW)
        while pieces:
            self.extend(pieces.pop(0))
        self.enter_all()

    def _truncate(self, block, rows):
        """Drop what a block has of rows that are gone: those after the first `rows`."""
        if block.ends is not None:
            del block.texts[int(block.ends[rows - 1]) :]
        if block.loose is not None:
            del block.loose[rows:]

    def ids(self, begin, end):
        """Return the ids of rows."""
        return [self.id_at(place) for place in range(begin, end)]

    def keyed(self, ids):
        """Return the columns `key`, `flags`, `sizes` and `texts` for a list of ids."""
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = len(ids)
        key, flags, sizes = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.uint8), np.zeros(n, dtype=np.int64)
        keys: cython.longlong[::1] = key
        kinds: cython.uchar[::1] = flags
        lengths: cython.longlong[::1] = sizes
        texts = bytearray()
        for k in range(n):
            id = ids[k]
            self._look_at(id)
            keys[k], kinds[k] = self._key, self._kind
            if self._kind == TEXT:
                content = id.encode()
                texts += content
                lengths[k] = len(content)
            elif self._kind == SIXTEEN:
                texts += bytes.fromhex(id.replace("-", ""))
                lengths[k] = 16
        return {"key": key, "flags": flags, "sizes": sizes if len(texts) else None, "texts": bytes(texts)}

    def numbered(self, versions, version_of, keys, keys_of):
        """Return the columns of `levels` of rows that have these versions and keys, by their places in both lists."""
        levels = {}
        if version_of is not None:
            levels[VERSION] = self._numbers_of(VERSION, versions, version_of)
        if keys_of is not None:
            split = [self._split_keys(one) for one in keys]
            for column in sorted({column for one in split for column in one}):
                levels[column] = self._numbers_of(column, [one.get(column) for one in split], keys_of)
        return [levels.get(column) for column in range(max(levels, default=-1) + 1)]

    def _numbers_of(self, column, values, of):
        """Return the numbers of the values that rows have, by their places in the list of values."""
        uses = np.bincount(of, minlength=len(values)).tolist()
        names: Names = self.names[column]
        numbers = [names.take_many(value, n) for value, n in zip(values, uses, strict=True)]
        return np.array(numbers, dtype=np.int32)[of]

    def _split_keys(self, keys):
        """Return the levels of keys by column."""
        levels, others = {}, []
        for field, level in (keys or {}).items():
            column = self._column_of(field)
            if column < 0:
                others.append((field, level))
            else:
                levels[column] = level
        if others:
            levels[OTHERS] = tuple(others)
        return levels

    def _column_of(self, field):
        """Return the column of a field, which is made if there are few; −1 for none."""
        column = self._columns.get(field)
        if column is None:
            if len(self.fields) >= MOST_FIELDS:
                return -1
            column = FIRST_FIELD + len(self.fields)
            self.fields.append(field)
            self.names.append(Names())
            self._columns[field] = column
        return column

    def has_twice(self):
        """Return whether an id is in two rows."""
        begin, parts = self.first, []
        while begin < self.end:
            upto = min(self.end, ((begin >> SHIFT) + 1) << SHIFT)
            block: Block = self.block(begin)
            parts.append(np.asarray(block.key)[begin & LOW : (begin & LOW) + upto - begin])
            begin = upto
        if not parts:
            return False
        keys = np.concatenate(parts)
        ordered = np.sort(keys)
        if not (ordered[1:] == ordered[: len(ordered) - 1]).any():
            return False
        order = np.argsort(keys, kind="stable")
        equal = np.flatnonzero(np.diff(keys[order]) == 0)
        places = self.first + np.unique(np.concatenate([order[equal], order[equal + 1]]))
        return any(self.place_of(self.id_at(place)) != place for place in places.tolist())


_COLUMNS = ("number", "at", "score", "p", "key", "flags", "t", "w", "when", "outcome_w", "cell", "sizes")
_DEFAULTS = {"w": 1.0, "outcome_w": float("nan")}


def _joined(name, pieces):
    """Return the parts of a column as one; None where all are None."""
    kind = next((one[name].dtype for one in pieces if one[name] is not None), None)
    if kind is None:
        return None
    parts = []
    for one in pieces:
        part = one["at"] if name == "t" and one[name] is None else one[name]
        parts.append(np.full(len(one["at"]), _DEFAULTS.get(name, 0), dtype=kind) if part is None else part)
    return np.concatenate(parts)


def _as_list(records, size):
    """Return what is remembered of rows as a list of bytes and None."""
    if records is None:
        return [None] * size
    return records if type(records) is list else [one.tobytes() for one in records]


def _kept(piece, rows):
    """Return columns with some of the rows alone."""
    selected = {}
    for name, column in piece.items():
        if name == "levels":
            selected[name] = [None if one is None else one[rows] for one in column]
        elif name == "texts" and column is not None:
            ends = np.cumsum(piece["sizes"]).tolist()
            begins = [0, *ends]
            selected[name] = b"".join(column[begins[k] : ends[k]] for k in np.flatnonzero(rows).tolist())
        elif type(column) is list:
            selected[name] = [one for one, keeps in zip(column, rows.tolist(), strict=True) if keeps]
        else:
            selected[name] = None if column is None else column[rows]
    return selected


def _clear(heads: Heads):
    heads.codes[:] = 0


def plain_ids(values: list, check):
    """Return ids in the form of `streamcal.live.issued.check_id`, which is called for those that are not plain."""
    k: cython.Py_ssize_t
    size: cython.Py_ssize_t
    ids: list = [None] * len(values)
    for k in range(len(values)):
        value = values[k]
        if type(value) is str:
            text: str = value
            size = len(text)
            if 0 < size <= 64 and text.isprintable():
                first = text[0]
                if not (first.isdigit() or first == "-"):
                    ids[k] = text
                    continue
                if first != "0" and text.isdigit() and text.isascii():
                    if size <= 15:
                        ids[k] = int(text)
                        continue
                    if size >= 17:  # above 2⁵³
                        ids[k] = text
                        continue
        elif type(value) is int and -9007199254740992 <= value <= 9007199254740992:
            ids[k] = value
            continue
        ids[k] = check(value)
    return ids


@cython.cfunc
def _is_uuid(text: object) -> cython.bint:
    """Return whether a text of 36 characters is a UUID in its usual form: hexadecimal digits in lower case, hyphens."""
    if not (text[8] == text[13] == text[18] == text[23] == "-" and text.isascii()):
        return False
    digits = text.replace("-", "")
    return len(digits) == 32 and not digits.strip("0123456789abcdef")
