package pipeline

import (
	"context"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/source"
)

// foreignWait is how long a transform waits for the start markers, which only add detail to a warning.
const foreignWait = 10 * time.Second

// foreign warns of offsets in a transform's group that this program has not committed: they lack its note, as those
// of another application in the group do, and those of the first release. What another application has read is never
// whitened. The two cannot be told apart, and an upgrade must go on, so this is only a warning. Each comes once,
// because our note is with the offset from then on.
func (p *Positions) foreign(ctx context.Context, f known, parts []source.Partition) {
	var found []source.Partition
	for _, part := range parts {
		c := f.committed[part]
		if note, err := source.ParseNote(c.Metadata); c.Next >= 0 && err == nil && note.Version == 0 {
			found = append(found, part)
		}
	}
	if !p.transforms() || len(found) == 0 { // a learner knows what its models have learnt
		return
	}
	reading, cancel := context.WithTimeout(ctx, foreignWait)
	defer cancel()
	seen, err := p.Starts.Read(reading)
	if err != nil {
		p.Log.Debug("the start markers are not known", "error", err)
	}
	for _, part := range found {
		because := "it is of the first release, or another application uses source.group: then what it has read is never whitened"
		if _, begun := seen[p.markerKey(part)]; begun {
			because = "this release has begun here before: another application uses source.group, and what it has read is never whitened, or the first release ran in between"
		}
		p.Log.WarnContext(logs.Unlimited(ctx), "the transform reads on at an offset that this release has not committed",
			"group", p.Group, "partition", part.String(), "offset", f.committed[part].Next, "because", because,
			"remedy", "give the other application a group of its own; `lca-stream offsets reset` moves the transform back")
	}
}
