package snapshot

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"regexp"
	"slices"
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
	a, left := &arrays{}, uint64(inflated(len(data)))
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok || name != npzMetadata && !isArray(name) {
			continue
		}
		if f.UncompressedSize64 > left {
			return nil, fmt.Errorf("array %s: has %d bytes in a file of %d: the arrays of a model take at most %d times as many as their file", name, f.UncompressedSize64, len(data), inflates)
		}
		left -= f.UncompressedSize64
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
	array, err := parseNPY(r, f.UncompressedSize64)
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

// parseNPY reads an array of that many bytes, header included: the numbers once the header has said that they are as many.
func parseNPY(r io.Reader, size uint64) (a npy, err error) {
	const before = len(npyMagic) + 2
	b := make([]byte, before)
	if _, err := io.ReadFull(r, b); err != nil || string(b[:len(npyMagic)]) != npyMagic {
		return a, errors.New("not an .npy file of version 1.0")
	}
	header := make([]byte, binary.LittleEndian.Uint16(b[len(npyMagic):]))
	if _, err := io.ReadFull(r, header); err != nil {
		return a, errors.New("the file ends within its header")
	}
	if err := a.parse(header); err != nil {
		return a, err
	}
	rest := size - uint64(before) - uint64(len(header))
	if bytes, known := a.bytes(); known && bytes != rest {
		return a, fmt.Errorf("its header says %d bytes of numbers, and the file says %d", bytes, rest)
	}
	a.data = make([]byte, rest)
	if _, err := io.ReadFull(r, a.data); err != nil {
		return a, err
	}
	if n, err := r.Read(b[:1]); n > 0 || !errors.Is(err, io.EOF) {
		return a, errors.Join(errors.New("it has more bytes than the file says"), err)
	}
	return a, nil
}

// bytes is how many bytes the type and the shape make; not known: it is a type that is not read.
func (a *npy) bytes() (size uint64, known bool) {
	size = map[string]uint64{"<f8": 8, "<f4": 4}[a.typ]
	if runes, ok := strings.CutPrefix(a.typ, "<U"); ok {
		n, _ := strconv.ParseUint(runes, 10, 32)
		size = 4 * n
	}
	for _, n := range a.shape {
		high, low := bits.Mul64(size, uint64(n))
		if size = low; high > 0 || n < 0 {
			return math.MaxUint64, true
		}
	}
	return size, size > 0 || slices.Contains(a.shape, 0)
}

// parse reads a header.
func (a *npy) parse(header []byte) error {
	found := regexp.MustCompile(npyHeader).FindSubmatch(header)
	if found == nil {
		return fmt.Errorf("header %q", header)
	}
	if string(found[2]) == "True" {
		return errors.New("is in Fortran order: save np.ascontiguousarray of it")
	}
	a.typ = string(found[1])
	for _, text := range strings.FieldsFunc(string(found[3]), func(r rune) bool { return r == ',' || r == ' ' }) {
		k, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		a.shape = append(a.shape, k)
	}
	return nil
}
