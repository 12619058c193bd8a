package snapshot

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

func exported(t testing.TB, s *Snapshot, f Format) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, s, f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestExportImport: every format gives back what it was given, to the last bit and key.
func TestExportImport(t *testing.T) {
	for _, c := range []struct {
		name   string
		d, p   int
		change func(*Snapshot)
	}{
		{"every field", 5, 2, func(s *Snapshot) { s.Extra = map[string]string{"owner": "späti 漢 🙂"} }},
		{"one column", 1, 1, func(*Snapshot) {}},
		{"all Parzen", 4, 4, func(*Snapshot) {}},
		{"all Gaussian, no neighbours", 4, 0, func(s *Snapshot) { s.Model.Neighbours = nil }},
		{"no covariances", 3, 1, func(s *Snapshot) { s.Model.CL, s.Model.CG = nil, nil }},
		{"extreme numbers", 3, 1, func(s *Snapshot) {
			s.Model.Mean[0], s.Model.Mean[1], s.Model.Mean[2] = math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1)
			s.Model.Neighbours[0] = math.SmallestNonzeroFloat32
		}},
	} {
		for _, f := range Formats() {
			t.Run(c.name+"/"+string(f), func(t *testing.T) {
				s := example(c.d, c.p, 7, 1000)
				c.change(s)
				data := exported(t, s, f)
				got, err := Import(bytes.NewReader(data))
				if err != nil {
					t.Fatal(err)
				}
				if d := diff(s, got); d != "" {
					t.Error(d)
				}
				if !bytes.Equal(data, exported(t, got, f)) {
					t.Error("other bytes the second time")
				}
			})
		}
	}
}

// TestImportRefuses: each format's own ways of being broken.
func TestImportRefuses(t *testing.T) {
	s := example(3, 1, 2, 100)
	swap := func(f Format, old, new string) []byte {
		data := exported(t, s, f)
		if !bytes.Contains(data, []byte(old)) {
			t.Fatalf("%s holds no %q", f, old)
		}
		return bytes.Replace(data, []byte(old), []byte(new), 1)
	}
	for _, c := range []struct {
		name string
		data []byte
		says string
	}{
		{"nothing", nil, "none of the formats"},
		{"text", []byte("hello, I am a model"), "none of the formats"},
		{"JSON without metadata", []byte(`{"mean":[1]}`), "lca.format"},
		{"JSON of another program", []byte(`[1,2]`), "none of the formats"},
		{"JSON with ragged rows", swap(FormatJSON, `"whiten":[[`, `"whiten":[[1],[`), "row 1 of whiten"},
		{"JSON with a word for a number", swap(FormatJSON, `"mean":[`, `"mean":["x",`), "json"},
		{"JSON with one eigenvalue too many", swap(FormatJSON, `"eigenvalues":[`, `"eigenvalues":[1,`), "4 eigenvalues"},
		{"JSON with another width", swap(FormatJSON, `"lca.d":"3"`, `"lca.d":"4"`), "lca.d is 4"},
		{"JSON of a newer format", swap(FormatJSON, `"lca.format":"2"`, `"lca.format":"9"`), "newer"},
		{"safetensors of another type", swap(FormatSafetensors, `"dtype":"F64"`, `"dtype":"I64"`), "I64"},
		{"safetensors beyond its file", swap(FormatSafetensors, `"data_offsets":[0,`, `"data_offsets":[9,`), "mean"},
		{"safetensors with a header beyond all bounds", []byte("\x00\x00\x00\x00\x00\x00\x00\x01{..."), "ends within"},
		{"npz with Fortran order", swap(FormatNPZ, "'fortran_order': False", "'fortran_order': True "), "header"},
		{"onnx without arrays", []byte{onnxIRVersion << 3, 7}, "not exported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Import(bytes.NewReader(c.data))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want …%s…", err, c.says)
			}
		})
	}
	for _, f := range Formats() {
		good := exported(t, s, f)
		for n := 0; n < len(good)-9; n += 7 {
			if _, err := Import(bytes.NewReader(good[:n])); err == nil {
				t.Errorf("%s: %d bytes of %d were taken", f, n, len(good))
			}
		}
	}
}

func TestParseNPY(t *testing.T) {
	header := func(text string) []byte {
		return append([]byte("\x93NUMPY\x01\x00"+string([]byte{byte(len(text)), 0})+text), 1, 2, 3, 4, 5, 6, 7, 8)
	}
	for _, c := range []struct {
		name string
		data []byte
		says string // "" where it is fine
	}{
		{"matrix", header("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }  \n"), ""},
		{"vector", header("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n"), ""},
		{"Fortran order", header("{'descr': '<f8', 'fortran_order': True, 'shape': (1, 1), }\n"), "ascontiguousarray"},
		{"another header", header("{'shape': (1,)}\n"), "header"},
		{"version 2", []byte("\x93NUMPY\x02\x00\x00\x00\x00\x00"), "version 1.0"},
		{"cut", []byte("\x93NUMPY\x01\x00\xff\x00{"), "ends within"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := parseNPY(bytes.NewReader(c.data), uint64(len(c.data)))
			if c.says == "" {
				if err != nil || a.typ != "<f8" || len(a.data) != 8 {
					t.Errorf("%+v, %v", a, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want …%s…", err, c.says)
			}
		})
	}
}

// FuzzImport: no bytes make it panic, and what it takes is valid.
func FuzzImport(f *testing.F) {
	for _, format := range Formats() {
		f.Add(exported(f, example(2, 1, 1, 100), format))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Import(bytes.NewReader(data))
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
	})
}
