package snapshot

import (
	"bytes"
	"fmt"
	"io"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// WriteFile writes the parts, each as one Arrow stream, one after the other. In Python:
//
//	with open(path, "rb") as f:
//	    model = pa.ipc.open_stream(f).read_all()
//	    neighbours = pa.ipc.open_stream(f).read_all()
//	    scores = pa.ipc.open_stream(f).read_all()
func WriteFile(w io.Writer, s *Snapshot) error {
	if err := s.Validate(); err != nil {
		return err
	}
	for _, p := range []part{modelPart(s), neighboursPart(s), scoresPart(s)} {
		b, err := onlyChunk(p)
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("snapshot: write part %s: %w", p.name, err)
		}
	}
	return nil
}

// ReadFile reads what WriteFile wrote. Earlier versions wrote no scores.
func ReadFile(r io.Reader) (*Snapshot, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("snapshot: read: %w", err)
	}
	var d decoder
	for _, name := range []string{PartModel, PartNeighbours, PartScores} {
		if name == PartScores && len(data) == 0 {
			break
		}
		if data, err = d.add(name, data, ipcguard.BatchLimits()); err != nil {
			return nil, err
		}
	}
	if n := len(bytes.TrimLeft(data, "\x00")); n > 0 {
		return nil, fmt.Errorf("snapshot: %d bytes after the last part", n)
	}
	return d.finish()
}
