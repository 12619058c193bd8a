package snapshot

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
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

// TestExports: each format has all arrays, to the last bit, and all metadata; it is recognised, and not taken for a model.
func TestExports(t *testing.T) {
	for _, c := range []struct {
		name   string
		d, p   int
		change func(*Snapshot)
	}{
		{"every field", 5, 2, func(s *Snapshot) { s.Extra = map[string]string{"owner": "späti 漢 🙂"} }},
		{"one column", 1, 1, func(*Snapshot) {}},
		{"all Gaussian, no neighbours", 4, 0, func(s *Snapshot) { s.Model.Neighbours = nil }},
		{"no covariances", 3, 1, func(s *Snapshot) { s.Model.CL, s.Model.CG = nil, nil }},
		{"extreme numbers", 3, 1, func(s *Snapshot) {
			s.Model.Mean[0], s.Model.Mean[1], s.Model.Mean[2] = math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1)
			s.Model.Neighbours[0] = math.SmallestNonzeroFloat32
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := example(c.d, c.p, 7, 1000)
			c.change(s)
			a := arraysOf(s)
			for _, f := range Formats() {
				data := exported(t, s, f)
				if !bytes.Equal(data, exported(t, s, f)) {
					t.Errorf("%s: other bytes the second time", f)
				}
				if got := ExportedAs(data); f != FormatArrow && got != f || f == FormatArrow && got != "" {
					t.Errorf("%s is recognised as %q", f, got)
				}
				got, err := ReadFile(bytes.NewReader(data))
				switch {
				case f != FormatArrow && (err == nil || !strings.Contains(err.Error(), "other programs, "+string(f))):
					t.Errorf("%s is read: %v", f, err)
				case f == FormatArrow && err != nil:
					t.Error(err)
				case f == FormatArrow:
					if d := diff(s, got); d != "" {
						t.Error(d)
					}
				}
				checkExport(t, f, data, a)
			}
		})
	}
	for _, data := range []string{"", "{}", `{"metadata":{"a":1}}`, "PK\x03\x04", "hello, I am a model", "\x08\x08"} {
		if f := ExportedAs([]byte(data)); f != "" {
			t.Errorf("%q is taken for %s", data, f)
		}
	}
}

// checkExport looks for the arrays where the format has them. Whether other programs read it is shown in Python (TestPythonPageRuns).
func checkExport(t *testing.T, f Format, data []byte, a *arrays) {
	t.Helper()
	want := map[string][]byte{nameNeighbours: float32Bytes(a.x)}
	for _, name := range float64Names() {
		want[name] = float64Bytes(a.float64s[name].values)
	}
	got := map[string][]byte{}
	switch f {
	case FormatNPZ:
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range z.File {
			r, err := file.Open()
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			_, b, _ = bytes.Cut(b, []byte("\n")) // the header ends so
			got[strings.TrimSuffix(file.Name, ".npy")] = b
		}
		want[npzMetadata] = npyText(string(must(json.Marshal(a.metadata)))).data
	case FormatSafetensors:
		n := binary.LittleEndian.Uint64(data)
		var header map[string]safetensor
		text := bytes.Replace(data[8:8+n], must(json.Marshal(a.metadata)), []byte("{}"), 1)
		if err := json.Unmarshal(text, &header); err != nil {
			t.Fatal(err)
		}
		delete(header, safetensorsMetadata)
		for name, tensor := range header {
			got[name] = data[8+n:][tensor.Offsets[0]:tensor.Offsets[1]]
		}
	case FormatJSON:
		var j jsonSnapshot
		if err := json.Unmarshal(data, &j); err != nil {
			t.Fatal(err)
		}
		for name, rows := range map[string][][]float64{KindMean: {j.Mean}, nameEigenvalues: {j.Eigenvalues}, nameScores: {j.Scores}, KindWhiten: j.Whiten, KindParzen: j.Parzen,
			KindGaussian: j.Gaussian, KindCL: j.CL, KindCG: j.CG} {
			got[name] = float64Bytes(slices.Concat(rows...))
		}
		got[nameNeighbours] = float32Bytes(slices.Concat(j.Neighbours...))
		if !maps.Equal(j.Metadata, a.metadata) {
			t.Errorf("json has the metadata %v, want %v", j.Metadata, a.metadata)
		}
	default:
		return
	}
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s: %s has other bytes", f, name)
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
