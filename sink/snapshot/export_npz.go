package snapshot

import (
	"archive/zip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// An npz file is a zip archive with one .npy file per array. metadata is JSON text in an array without dimensions, so
// that numpy needs no pickle: json.loads(str(f["metadata"])).
const npzMetadata = "metadata"

func writeNPZ(w io.Writer, a *arrays) error {
	z := zip.NewWriter(w)
	text, err := json.Marshal(a.metadata) // keys sorted
	if err != nil {
		return err
	}
	if err := writeNPY(z, npzMetadata, npyText(string(text))); err != nil {
		return err
	}
	for _, name := range float64Names() {
		m := a.float64s[name]
		if err := writeNPY(z, name, npy{"<f8", shape(name, m.rows, m.columns), float64Bytes(m.values)}); err != nil {
			return err
		}
	}
	if err := writeNPY(z, nameNeighbours, npy{"<f4", shape(nameNeighbours, len(a.x)/a.d, a.d), float32Bytes(a.x)}); err != nil {
		return err
	}
	return z.Close()
}

// npy is one array: numpy's name of its type, its shape in C order, its bytes.
type npy struct {
	typ   string
	shape []int
	data  []byte
}

// npyText encodes a text as numpy does: UTF-32.
func npyText(text string) npy {
	var b []byte
	n := 0
	for _, r := range text {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
		n++
	}
	return npy{"<U" + strconv.Itoa(n), nil, b}
}

const npyMagic = "\x93NUMPY\x01\x00" // version 1.0

func writeNPY(z *zip.Writer, name string, a npy) error {
	var dims strings.Builder
	for _, n := range a.shape {
		fmt.Fprintf(&dims, "%d,", n) // a Python tuple may end in a comma, and one of a single element must
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", a.typ, dims.String())
	const before = len(npyMagic) + 2
	header += strings.Repeat(" ", 63-(before+len(header))%64) + "\n" // the data begin at a multiple of 64
	// The zip's date is fixed, so that the same snapshot gives the same bytes.
	f, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		return err
	}
	for _, b := range [][]byte{[]byte(npyMagic), binary.LittleEndian.AppendUint16(nil, uint16(len(header))), []byte(header), a.data} {
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return nil
}
