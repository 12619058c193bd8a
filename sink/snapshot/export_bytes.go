package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// All export formats are little-endian.

func float64Bytes(values []float64) []byte {
	b := make([]byte, 0, 8*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func float32Bytes(values []float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

var errPartialNumber = errors.New("its bytes are not a whole number of numbers")

func bytesFloat64(b []byte) ([]float64, error) {
	if len(b)%8 != 0 {
		return nil, errPartialNumber
	}
	values := make([]float64, len(b)/8)
	for i := range values {
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return values, nil
}

func bytesFloat32(b []byte) ([]float32, error) {
	if len(b)%4 != 0 {
		return nil, errPartialNumber
	}
	values := make([]float32, len(b)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return values, nil
}

// checkShape refuses dimensions that no file can hold, so that their product cannot overflow.
func checkShape(dims []int) error {
	for _, k := range dims {
		if k < 0 || k > math.MaxInt32 {
			return fmt.Errorf("its shape %v is beyond all bounds", dims)
		}
	}
	return nil
}
