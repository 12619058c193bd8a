package format

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// TestReuse holds that batches which take turns in the same memory have the same rows, dictionaries included; read twice, and from a pipe.
func TestReuse(t *testing.T) {
	paths, err := filepath.Glob("testdata/files/*.arrow*")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		want := rowsOf(t, openFile(t, 7, name))
		f := openFile(t, 7, name)
		f.Reuse()
		for range 2 { // the second time it goes back to the beginning
			if diff := cmp.Diff(want, rowsOf(t, f)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		if filepath.Ext(name) != ".arrows" {
			continue
		}
		p, err := OpenPipe(bytes.NewReader(read(t, name)), FileConfig{MaxRows: 7})
		if err != nil {
			t.Fatal(name, err)
		}
		p.Reuse()
		got, err := rowsOfPipe(p)
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s from a pipe: %s", name, diff)
		}
	}
}

// TestBodies holds that only batches take turns, and only where that is asked for.
func TestBodies(t *testing.T) {
	var b bodies
	first := b.take(ipcguard.BatchMessage, 8)
	if second := b.take(ipcguard.BatchMessage, 8); &first[0] == &second[0] {
		t.Error("batches share memory without Reuse")
	}
	b.again = true
	first = b.take(ipcguard.BatchMessage, 8)
	if second := b.take(ipcguard.BatchMessage, 5); &first[0] != &second[0] || len(second) != 5 || cap(second) != 5 {
		t.Errorf("a batch has %d of %d bytes, not those of the one before", len(second), cap(second))
	}
	if dictionary := b.take(ipcguard.DictionaryMessage, 5); &first[0] == &dictionary[0] {
		t.Error("a dictionary's memory is that of a batch")
	}
}
