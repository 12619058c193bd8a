package snapshot

import (
	"errors"
	"fmt"

	"github.com/lca-stream/lca-stream/source"
)

// ErrNewer is wrapped by the error about a snapshot whose format is newer than this program.
var ErrNewer = errors.New("written by a newer release")

// Newer returns the newest complete version of a model id, and an error that wraps ErrNewer, if this program cannot read
// it because a newer release has written it. The versions before it are superseded.
func (a *Assembler) Newer(modelID string) (version uint64, err error) {
	for _, s := range a.byVersion(modelID) {
		version, ok := s.whole()
		if !ok {
			continue
		}
		if _, err := a.decode(s, modelID); errors.Is(err, ErrNewer) {
			return version, fmt.Errorf("model %q: %w", modelID, err)
		}
		return 0, nil
	}
	return 0, nil
}

// unknownPart passes over a part that a newer release has added: the format of the part model says so. It refuses what
// is not ours.
func unknownPart(p place, key, value []byte, headers []source.Header) error {
	ours := source.LastHeader(headers, headerPart) == p.part && source.LastHeader(headers, headerModelID) == p.modelID
	if ours || value == nil {
		return nil
	}
	return foreignKey(key)
}
