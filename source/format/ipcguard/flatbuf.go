package ipcguard

// walk reads one flatbuffer that has not been verified. The first thing that does not fit stops it:
// err is set, and every later read returns zero values, so callers need to look at err only
// where they loop or where they end.
type walk struct {
	b   []byte
	err *Error
}

func newWalk(b []byte) *walk { return &walk{b: b} }

func (w *walk) fail(c Cause, format string, args ...any) {
	if w.err == nil {
		w.err = errorf(c, format, args...)
	}
}

// room reports whether n bytes stand at pos.
func (w *walk) room(pos, n int) bool {
	if w.err != nil {
		return false
	}
	if pos < 0 || n < 0 || pos > len(w.b) || n > len(w.b)-pos {
		w.fail(Invalid, "metadata points outside itself (%d bytes at %d of %d)", n, pos, len(w.b))
		return false
	}
	return true
}

// table is a flatbuffer table whose vtable and inline size lie within the bytes. The zero table
// is absent: it has no fields.
type table struct {
	w     *walk
	pos   int // of the table
	vt    int // of its vtable
	slots int // fields in the vtable
	size  int // inline bytes of the table
}

func (w *walk) root() table {
	if !w.room(0, 4) {
		return table{}
	}
	return w.table(int(le.Uint32(w.b)))
}

// table opens the table at pos: soffset to the vtable, then the vtable's two sizes.
func (w *walk) table(pos int) table {
	if !w.room(pos, 4) {
		return table{}
	}
	vt := pos - int(int32(le.Uint32(w.b[pos:])))
	if !w.room(vt, 4) {
		return table{}
	}
	n, size := int(le.Uint16(w.b[vt:])), int(le.Uint16(w.b[vt+2:]))
	if n < 4 || n%2 != 0 || size < 4 {
		w.fail(Invalid, "metadata holds a table of impossible size at %d", pos)
		return table{}
	}
	if !w.room(vt, n) || !w.room(pos, size) {
		return table{}
	}
	return table{w: w, pos: pos, vt: vt, slots: (n - 4) / 2, size: size}
}

// slot returns where the n inline bytes of field i stand, or 0 when the field is absent.
func (t table) slot(i, n int) int {
	if t.w == nil || t.w.err != nil || i >= t.slots {
		return 0
	}
	o := int(le.Uint16(t.w.b[t.vt+4+2*i:]))
	if o == 0 {
		return 0
	}
	if o < 4 || o+n > t.size {
		t.w.fail(Invalid, "metadata holds a field outside its table at %d", t.pos)
		return 0
	}
	return t.pos + o
}

func (t table) present() bool { return t.w != nil }

func (t table) u8(i int, def uint8) uint8 {
	if p := t.slot(i, 1); p > 0 {
		return t.w.b[p]
	}
	return def
}

func (t table) i16(i int, def int16) int16 {
	if p := t.slot(i, 2); p > 0 {
		return int16(le.Uint16(t.w.b[p:]))
	}
	return def
}

func (t table) i32(i int, def int32) int32 {
	if p := t.slot(i, 4); p > 0 {
		return int32(le.Uint32(t.w.b[p:]))
	}
	return def
}

func (t table) i64(i int, def int64) int64 {
	if p := t.slot(i, 8); p > 0 {
		return int64(le.Uint64(t.w.b[p:]))
	}
	return def
}

// follow returns what the offset at p points to. Offsets are unsigned and at least 4, so they
// only lead forward: no cycle can be written. (They may share a target; see walk.fields.)
func (w *walk) follow(p int) int {
	o := int(le.Uint32(w.b[p:]))
	if o < 4 {
		w.fail(Invalid, "metadata holds an offset to itself at %d", p)
		return -1
	}
	return p + o
}

// sub opens the table that field i points to; absent if the field is.
func (t table) sub(i int) table {
	p := t.slot(i, 4)
	if p == 0 {
		return table{}
	}
	return t.w.table(t.w.follow(p))
}

// vector returns the start and the count of the elements of field i, each of size bytes.
func (t table) vector(i, size int) (start, n int) {
	p := t.slot(i, 4)
	if p == 0 {
		return 0, 0
	}
	p = t.w.follow(p)
	if !t.w.room(p, 4) {
		return 0, 0
	}
	count := uint64(le.Uint32(t.w.b[p:]))
	if left := uint64(len(t.w.b) - p - 4); count*uint64(size) > left {
		t.w.fail(Invalid, "metadata announces %d elements, %d bytes are left", count, left)
		return 0, 0
	}
	return p + 4, int(count)
}

// str returns the bytes of string field i; nil if absent.
func (t table) str(i int) []byte {
	start, n := t.vector(i, 1)
	if start == 0 {
		return nil
	}
	return t.w.b[start : start+n]
}

// at opens the table that element k of a vector of offsets points to.
func (w *walk) at(start, k int) table {
	p := start + 4*k
	if !w.room(p, 4) {
		return table{}
	}
	return w.table(w.follow(p))
}
