package ipcguard

// layout lays the fields of a schema over the nodes and buffers of a batch, in depth-first order,
// as every reader does.
type layout struct {
	batch                  *Batch
	limits                 Limits
	node, buffer, variadic int // next ones
}

// field takes the node, the buffers and the children of f. Its array must have want values, or at
// least as many where not exact (a child may be longer than its parent needs).
func (l *layout) field(f *Field, want int64, exact bool) *Error {
	if l.node >= len(l.batch.Nodes) {
		return errorf(Invalid, "column %s: the batch has no more than %d arrays", f.Path, l.node)
	}
	n := l.batch.Nodes[l.node]
	l.node++
	switch {
	case n.Len < 0 || n.Nulls < -1 || n.Nulls > n.Len:
		return errorf(Invalid, "column %s has %d values, %d of them null", f.Path, n.Len, n.Nulls)
	case n.Len < want || exact && n.Len != want:
		return errorf(Invalid, "column %s has %d values where %d are needed", f.Path, n.Len, want)
	case n.Len > 1<<40: // any real one is bounded by its buffers; this keeps products from overflowing
		return errorf(TooLarge, "column %s says it has %d values", f.Path, n.Len)
	}
	if f.Dict != nil {
		return l.fixed(&f.Dict.Index, n)
	}
	switch f.Kind {
	case Null:
		return l.weightless(f, n)
	case Bool, Int, Float, Decimal, Date, Time, Timestamp, Interval, FixedSizeBinary, Duration:
		return l.fixed(f, n)
	case Binary, Utf8:
		return l.firstOf(l.validity(f, n), l.offsets(f, n, 4), l.take(f, 0))
	case LargeBinary, LargeUtf8:
		return l.firstOf(l.validity(f, n), l.offsets(f, n, 8), l.take(f, 0))
	case BinaryView, Utf8View:
		return l.views(f, n)
	}
	return l.nested(f, n)
}

// nested lays out the kinds with children. How long a list's child must be is known only from its
// offsets, so Validate checks that.
func (l *layout) nested(f *Field, n Node) *Error {
	switch f.Kind {
	case List, Map:
		return l.firstOf(l.validity(f, n), l.offsets(f, n, 4), l.children(f, 0, false))
	case LargeList:
		return l.firstOf(l.validity(f, n), l.offsets(f, n, 8), l.children(f, 0, false))
	case ListView:
		return l.firstOf(l.validity(f, n), l.take(f, 4*n.Len), l.take(f, 4*n.Len), l.children(f, 0, false))
	case LargeListView:
		return l.firstOf(l.validity(f, n), l.take(f, 8*n.Len), l.take(f, 8*n.Len), l.children(f, 0, false))
	case FixedSizeList:
		if n.Len > (1<<60)/int64(f.Size) {
			return errorf(TooLarge, "column %s says it has %d lists of %d", f.Path, n.Len, f.Size)
		}
		return l.firstOf(l.validity(f, n), l.children(f, n.Len*int64(f.Size), false))
	case Struct:
		if len(f.Children) == 0 {
			return l.firstOf(l.validity(f, n), l.weightless(f, n))
		}
		return l.firstOf(l.validity(f, n), l.children(f, n.Len, false))
	case Union:
		if f.Dense {
			return l.firstOf(l.weightless(f, n), l.take(f, n.Len), l.take(f, 4*n.Len), l.children(f, 0, false))
		}
		return l.firstOf(l.weightless(f, n), l.take(f, n.Len), l.children(f, n.Len, false))
	case RunEndEncoded:
		return l.firstOf(l.weightless(f, n), l.children(f, 0, false))
	}
	return errorf(Unsupported, "column %s has type number %d", f.Path, f.Kind)
}

// firstOf returns the first error. Its arguments run in order, each taking its part of the batch;
// after an error the later ones may run, but read nothing outside the batch.
func (l *layout) firstOf(errs ...*Error) *Error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// take takes the next buffer, which must hold at least need bytes once decompressed.
func (l *layout) take(f *Field, need int64) *Error {
	if l.buffer >= len(l.batch.Buffers) {
		return errorf(Invalid, "column %s: the batch has no more than %d buffers", f.Path, l.buffer)
	}
	u := l.batch.Buffers[l.buffer]
	l.buffer++
	if u.Decoded < need {
		return errorf(Invalid, "column %s: buffer %d has %d bytes where its values need %d", f.Path, l.buffer-1, u.Decoded, need)
	}
	return nil
}

// validity takes the bitmap of nulls, which may be absent when there are none.
func (l *layout) validity(f *Field, n Node) *Error {
	if n.Nulls == 0 {
		return l.take(f, 0)
	}
	return l.take(f, (n.Len+7)/8)
}

// offsets takes n+1 offsets of the given width; an array without values may leave them out.
func (l *layout) offsets(f *Field, n Node, width int64) *Error {
	if n.Len == 0 {
		return l.take(f, 0)
	}
	return l.take(f, (n.Len+1)*width)
}

// fixed takes the bitmap and the values of a fixed width.
func (l *layout) fixed(f *Field, n Node) *Error {
	if f.Kind == Bool {
		return l.firstOf(l.validity(f, n), l.take(f, (n.Len+7)/8))
	}
	if int64(f.Width) > 1 && n.Len > (1<<60)/int64(f.Width) {
		return errorf(TooLarge, "column %s says it has %d values of %d bytes", f.Path, n.Len, f.Width)
	}
	return l.firstOf(l.validity(f, n), l.take(f, n.Len*int64(f.Width)))
}

// views takes the bitmap, a header of 16 bytes for each value, and the data buffers.
func (l *layout) views(f *Field, n Node) *Error {
	if l.variadic >= len(l.batch.Variadic) {
		return errorf(Invalid, "column %s: the batch does not say how many buffers its views have", f.Path)
	}
	count := l.batch.Variadic[l.variadic]
	l.variadic++
	if err := l.firstOf(l.validity(f, n), l.take(f, 16*n.Len)); err != nil {
		return err
	}
	if count < 0 || count > int64(len(l.batch.Buffers)-l.buffer) {
		return errorf(Invalid, "column %s has views into %d buffers", f.Path, count)
	}
	l.buffer += int(count)
	return nil
}

// children takes all children of f, each of at least want values.
func (l *layout) children(f *Field, want int64, exact bool) *Error {
	for i := range f.Children {
		if err := l.field(&f.Children[i], want, exact); err != nil {
			return err
		}
	}
	return nil
}

// weightless bounds the length of an array that needs few or no bytes for its values: elsewhere
// the bytes present are the bound.
func (l *layout) weightless(f *Field, n Node) *Error {
	if n.Len > l.limits.Rows {
		return errorf(TooLarge, "column %s says it has %d values, at most %d are read", f.Path, n.Len, l.limits.Rows)
	}
	return nil
}
