package ipcguard

// Pair is an entry of a schema's key-value metadata. It aliases the bytes it was read from.
type Pair struct{ Key, Value []byte }

// Pairs appends the key-value metadata of a schema message, of which the guard has checked the frame, to dst.
func Pairs(dst []Pair, m *Message) []Pair {
	if m.Kind != SchemaMessage {
		return dst
	}
	head, meta, fault := frame(m.Frame, Limits{Metadata: int64(len(m.Frame))})
	if fault != nil {
		return dst
	}
	w := newWalk(m.Frame[head : head+meta])
	schema := w.root().sub(2)
	start, n := schema.vector(2, 4)
	for k := range n {
		kv := w.at(start, k)
		dst = append(dst, Pair{kv.str(0), kv.str(1)})
	}
	return dst
}
