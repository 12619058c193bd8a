package snapshot

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
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

func readSafetensors(data []byte) (*arrays, error) {
	n := binary.LittleEndian.Uint64(data) // sniff has checked that there are more than 8 bytes
	if n > uint64(len(data)-8) {
		return nil, errors.New("the file ends within its header")
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	body := data[8+n:]
	a := &arrays{}
	if err := json.Unmarshal(header[safetensorsMetadata], &a.metadata); err != nil {
		return nil, fmt.Errorf("%s: %w", safetensorsMetadata, err)
	}
	for name, raw := range header {
		if !isArray(name) {
			continue
		}
		var t safetensor
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", name, err)
		}
		from, to := t.Offsets[0], t.Offsets[1]
		if from < 0 || to < from || to > len(body) {
			return nil, fmt.Errorf("tensor %s lies outside the file", name)
		}
		if err := a.setBytes(name, t.Type, t.Shape, body[from:to]); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", name, err)
		}
	}
	return a, nil
}

// setBytes is set for an array of bytes, which must be F64 or F32 as its name requires.
func (a *arrays) setBytes(name, typ string, dims []int, b []byte) error {
	want := "F64"
	if name == nameNeighbours {
		want = "F32"
	}
	if typ != want {
		return fmt.Errorf("its type is %s, want %s", typ, want)
	}
	if err := checkShape(dims); err != nil {
		return err
	}
	if name == nameNeighbours {
		x, err := bytesFloat32(b)
		if err != nil {
			return err
		}
		return a.set(name, dims, nil, x)
	}
	values, err := bytesFloat64(b)
	if err != nil {
		return err
	}
	return a.set(name, dims, values, nil)
}
