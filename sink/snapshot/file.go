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

// A file is measured by what it says that it holds, before that is made: numbers of a model hardly compress, so that what would take many times the
// bytes of the file is none.
const (
	mostFile      = 1 << 30  // bytes of a file: a learner with a larger model could not write its checkpoint
	leastInflated = 64 << 20 // bytes that any file may take once it is decompressed
	inflates      = 16       // how many times its bytes a larger one may take
)

// inflated is how many bytes a file of a size may take once it is decompressed.
func inflated(size int) int64 { return max(leastInflated, inflates*int64(min(size, mostFile))) }

// fileLimits are the limits of a file of a size.
func fileLimits(size int) ipcguard.Limits {
	l := ipcguard.BatchLimits()
	l.Decoded = min(l.Decoded, inflated(size))
	return l
}

// readAll reads a file.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, mostFile+1))
	if err == nil && len(data) > mostFile {
		err = fmt.Errorf("more than %d bytes, which no model has", mostFile)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: read: %w", err)
	}
	return data, nil
}

// ReadFile reads what WriteFile wrote. Earlier versions wrote no scores.
func ReadFile(r io.Reader) (*Snapshot, error) {
	data, err := readAll(r)
	if err != nil {
		return nil, err
	}
	if f := ExportedAs(data); f != "" {
		return nil, fmt.Errorf("snapshot: it is an export for other programs, %s: a model is read from an Arrow stream, which `snapshot export` writes to .arrows", f)
	}
	if !bytes.HasPrefix(data, []byte("\xff\xff\xff\xff")) && !bytes.HasPrefix(data, []byte("ARROW1")) {
		return nil, fmt.Errorf("snapshot: %d bytes are no Arrow stream, as a model is", len(data))
	}
	limits := fileLimits(len(data))
	var d decoder
	for _, name := range []string{PartModel, PartNeighbours, PartScores} {
		if name == PartScores && len(data) == 0 {
			break
		}
		if data, err = d.add(name, data, limits); err != nil {
			return nil, err
		}
	}
	if n := len(bytes.TrimLeft(data, "\x00")); n > 0 {
		return nil, fmt.Errorf("snapshot: %d bytes after the last part", n)
	}
	return d.finish()
}
