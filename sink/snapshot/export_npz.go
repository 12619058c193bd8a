package snapshot

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
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

func readNPZ(data []byte) (*arrays, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	a := &arrays{}
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok || name != npzMetadata && !isArray(name) {
			continue
		}
		if err := a.readNPY(f, name); err != nil {
			return nil, fmt.Errorf("array %s: %w", name, err)
		}
	}
	if a.metadata == nil {
		return nil, fmt.Errorf("no array %q: not exported by lca-stream", npzMetadata)
	}
	return a, nil
}

func (a *arrays) readNPY(f *zip.File, name string) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	array, err := parseNPY(b)
	if err != nil {
		return err
	}
	if name == npzMetadata {
		if !strings.HasPrefix(array.typ, "<U") || len(array.shape) != 0 || len(array.data)%4 != 0 {
			return fmt.Errorf("has type %s, want one text", array.typ)
		}
		var text strings.Builder
		for ; len(array.data) > 0; array.data = array.data[4:] {
			text.WriteRune(rune(binary.LittleEndian.Uint32(array.data)))
		}
		return json.Unmarshal([]byte(text.String()), &a.metadata)
	}
	typ := map[string]string{"<f8": "F64", "<f4": "F32"}[array.typ]
	if typ == "" {
		typ = array.typ
	}
	return a.setBytes(name, typ, array.shape, array.data)
}

// npyHeader matches what numpy writes: a Python dictionary of these three keys, in this order.
const npyHeader = `^\{'descr': '([^']*)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), *\} *\n?$`

func parseNPY(b []byte) (a npy, err error) {
	const before = len(npyMagic) + 2
	if len(b) < before || string(b[:len(npyMagic)]) != npyMagic {
		return a, errors.New("not an .npy file of version 1.0")
	}
	n := int(binary.LittleEndian.Uint16(b[len(npyMagic):]))
	if len(b) < before+n {
		return a, errors.New("the file ends within its header")
	}
	found := regexp.MustCompile(npyHeader).FindSubmatch(b[before : before+n])
	if found == nil {
		return a, fmt.Errorf("header %q", b[before:before+n])
	}
	if string(found[2]) == "True" {
		return a, errors.New("is in Fortran order: save np.ascontiguousarray of it")
	}
	a.typ, a.data = string(found[1]), b[before+n:]
	for _, text := range strings.FieldsFunc(string(found[3]), func(r rune) bool { return r == ',' || r == ' ' }) {
		k, err := strconv.Atoi(text)
		if err != nil {
			return a, err
		}
		a.shape = append(a.shape, k)
	}
	return a, nil
}
