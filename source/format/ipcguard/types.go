package ipcguard

import "strconv"

func quote(name []byte) string { return strconv.QuoteToASCII(string(name)) }

// typed checks the type table of a field whose kind and children are known, and fills in width
// and size. What is refused here as unsupported is sound Arrow that the decoder cannot take.
func (w *schemaWalk) typed(f *Field, t table) {
	if w.err != nil {
		return
	}
	switch f.Kind {
	case Null, Bool, Binary, Utf8, LargeBinary, LargeUtf8, BinaryView, Utf8View:
		w.arity(f, 0)
	case Int:
		w.intType(f, t)
	case Float: // precision 0: half, single, double
		w.arity(f, 0)
		w.pick(f, int(t.i16(0, 0)), "precision", 2, 4, 8)
	case Decimal:
		w.decimalType(f, t)
	case Date: // unit 0: days, milliseconds
		w.arity(f, 0)
		w.pick(f, int(t.i16(0, 1)), "unit", 4, 8)
	case Time:
		w.timeType(f, t)
	case Timestamp: // unit 0, timezone 1
		w.arity(f, 0)
		w.spend(len(t.str(1)))
		w.pick(f, int(t.i16(0, 0)), "unit", 8, 8, 8, 8)
	case Duration: // unit 0
		w.arity(f, 0)
		w.pick(f, int(t.i16(0, 1)), "unit", 8, 8, 8, 8)
	case Interval: // unit 0: year-month, day-time, month-day-nano
		w.arity(f, 0)
		w.pick(f, int(t.i16(0, 0)), "unit", 4, 8, 16)
	case FixedSizeBinary: // width 0
		w.arity(f, 0)
		w.sized(f, t, &f.Width)
	case FixedSizeList: // size 0
		w.arity(f, 1)
		w.sized(f, t, &f.Size)
	case List, LargeList, ListView, LargeListView:
		w.arity(f, 1)
	case Struct:
	default:
		w.composed(f, t)
	}
}

// composed checks the kinds whose children must have a certain form.
func (w *schemaWalk) composed(f *Field, t table) {
	switch f.Kind {
	case Map:
		w.arity(f, 1)
		if w.err == nil {
			if p := &f.Children[0]; p.Kind != Struct || len(p.Children) != 2 || p.Dict != nil {
				w.fail(Invalid, "map column %s is not made of key-value pairs", f.Path)
			}
		}
	case RunEndEncoded:
		w.arity(f, 2)
		w.schema.unions = true
		if w.err == nil {
			if e := &f.Children[0]; e.Kind != Int || !e.Signed || e.Width < 2 || e.Dict != nil {
				w.fail(Invalid, "run ends of column %s are not int16, int32 or int64", f.Path)
			}
		}
	case Union:
		w.schema.unions = true
		w.unionType(f, t)
	default:
		w.fail(Unsupported, "column %s has type number %d, which is unknown here; cast it before sending", f.Path, f.Kind)
	}
}

func (w *schemaWalk) arity(f *Field, n int) {
	if w.err == nil && len(f.Children) != n {
		w.fail(Invalid, "column %s has %d children where its type has %d", f.Path, len(f.Children), n)
	}
}

// pick sets the width by the value of an enum.
func (w *schemaWalk) pick(f *Field, v int, what string, widths ...int) {
	if v < 0 || v >= len(widths) {
		w.fail(Invalid, "column %s has %s %d", f.Path, what, v)
		return
	}
	f.Width = widths[v]
}

// intType: bits 0, signed 1.
func (w *schemaWalk) intType(f *Field, t table) {
	w.arity(f, 0)
	f.Signed = t.u8(1, 0) != 0
	switch bits := t.i32(0, 0); bits {
	case 8, 16, 32, 64:
		f.Width = int(bits / 8)
	default:
		w.fail(Invalid, "column %s has integers of %d bits", f.Path, bits)
	}
}

// decimalType: precision 0, scale 1, bits 2. A printer raises 10 to the scale, so it is bounded.
func (w *schemaWalk) decimalType(f *Field, t table) {
	w.arity(f, 0)
	precision, scale, bits := t.i32(0, 0), t.i32(1, 0), t.i32(2, 128)
	switch bits {
	case 128, 256:
		f.Width = int(bits / 8)
	case 32, 64:
		w.fail(Unsupported, "column %s is decimal%d; cast it to decimal128 or double before sending", f.Path, bits)
		return
	default:
		w.fail(Invalid, "column %s has decimals of %d bits", f.Path, bits)
		return
	}
	most := 38 * bits / 128 // 38 and 76 digits
	if precision < 1 || precision > most || scale < -most || scale > most {
		w.fail(Invalid, "column %s is decimal(%d, %d)", f.Path, precision, scale)
	}
}

// timeType: unit 0, bits 1. Seconds and milliseconds take 32 bits, the finer units 64.
func (w *schemaWalk) timeType(f *Field, t table) {
	w.arity(f, 0)
	unit, bits := t.i16(0, 1), t.i32(1, 32)
	if unit < 0 || unit > 3 || (bits == 32) != (unit < 2) || bits != 32 && bits != 64 {
		w.fail(Invalid, "column %s has times of %d bits in unit %d", f.Path, bits, unit)
		return
	}
	f.Width = int(bits / 8)
}

// sized reads the one number of a fixed-size type. Zero is sound Arrow, but no width to decode.
func (w *schemaWalk) sized(f *Field, t table, dst *int) {
	n := t.i32(0, 0)
	if n < 0 {
		w.fail(Invalid, "column %s has fixed size %d", f.Path, n)
	}
	if n == 0 {
		w.fail(Unsupported, "column %s has values of fixed size 0; leave it out", f.Path)
	}
	*dst = int(n)
}

// unionType: mode 0, type ids 1. Ids are 0 to 127, one for each child, none twice.
func (w *schemaWalk) unionType(f *Field, t table) {
	switch t.i16(0, 0) {
	case 0:
	case 1:
		f.Dense = true
	default:
		w.fail(Invalid, "column %s has a union of unknown mode", f.Path)
	}
	start, n := t.vector(1, 4)
	if start == 0 {
		n = len(f.Children) // absent: ids are 0, 1, 2, …
	}
	if w.err == nil && (n != len(f.Children) || n > 128) {
		w.fail(Invalid, "column %s has %d union type ids for %d children", f.Path, n, len(f.Children))
	}
	var seen [128]bool
	for k := 0; k < n && start > 0 && w.err == nil; k++ {
		id := int32(le.Uint32(w.b[start+4*k:]))
		if id < 0 || id > 127 || seen[id] {
			w.fail(Invalid, "column %s has union type id %d", f.Path, id)
			return
		}
		seen[id] = true
	}
}
