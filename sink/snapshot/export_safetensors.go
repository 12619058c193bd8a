package snapshot

import (
	"encoding/binary"
	"encoding/json"
	"io"
)

// A safetensors file is the length of a header (u64), the header, a JSON object of tensors by
// name, and the tensors' bytes without gaps:
//
//	+---------+-------------------------------------------------------+----------+
//	| n (u64) | {"mean": {"dtype", "shape", "data_offsets"}, … } and   | tensors  |
//	|         | spaces, so that the tensors begin at a multiple of 8  |          |
//	+---------+-------------------------------------------------------+----------+
type safetensor struct {
	Type    string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

const safetensorsMetadata = "__metadata__"

func writeSafetensors(w io.Writer, a *arrays) error {
	header := map[string]any{safetensorsMetadata: a.metadata}
	var body []byte
	put := func(name, typ string, dims []int, b []byte) {
		header[name] = safetensor{typ, dims, [2]int{len(body), len(body) + len(b)}}
		body = append(body, b...)
	}
	// float64 before float32, so that every tensor is aligned to its numbers.
	for _, name := range float64Names() {
		m := a.float64s[name]
		put(name, "F64", shape(name, m.rows, m.columns), float64Bytes(m.values))
	}
	put(nameNeighbours, "F32", shape(nameNeighbours, len(a.x)/a.d, a.d), float32Bytes(a.x))
	text, err := json.Marshal(header) // keys sorted
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	for _, b := range [][]byte{binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, body} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
