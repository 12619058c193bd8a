package pipeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/lca-stream/lca-stream/source"
)

// A learner of models by key commits the offset below which its models have learnt everything, as a transform commits below which everything is
// whitened. In the same group another learner may have committed before: that of one model for all rows, or one of models under another id or with
// another checkpoint topic. Its offset says nothing of these models: from there on rows would be left out that they have not learnt. So the note that is
// committed with an offset says of which models it is (ModelsNote), and their start markers are their own. What another learner has committed counts as
// nothing. Models that have begun go on at their marker, which is never ahead of them: each passes over the rows that it has learnt. Others begin where
// a new group does.

// ModelsNote is what Positions.Models is for models whose checkpoints are on a topic, and whose ids begin with that of snapshot.model_id.
func ModelsNote(checkpoints, modelID string) string { return checkpoints + "/" + modelID }

// transforms reports whether the positions are a transform's.
func (p *Positions) transforms() bool { return p.Model == "" && p.Models == "" }

// Ours reports whether a committed offset, if there is one, is that of these models. All are, except for a learner of models by key: that of another
// learner or of a transform is not, nor one that no release that knows such models has committed. One without a name is from before there were names.
func (p *Positions) Ours(c source.Position) bool {
	if c.Next < 0 || p.Models == "" {
		return true
	}
	note, err := source.ParseNote(c.Metadata)
	return err == nil && note.Version > 0 && note.Model == "" && (note.Models == "" && note.Since == nil || note.Models == p.Models)
}

// models is how the keys of the start markers of models by key begin.
func (p *Positions) models() string {
	return fmt.Sprintf("start/%s/%s/models/%s", p.Group, p.Topic, p.Models)
}

func (p *Positions) markerKey(part source.Partition) string {
	if p.Models != "" {
		return fmt.Sprintf("%s/%d", p.models(), part.ID)
	}
	return markerKey(p.Group, part)
}

func (p *Positions) firstKey() string {
	if p.Models != "" {
		return p.models() + "/first"
	}
	return firstKey(p.Group, p.Topic, p.Model)
}

// learners refuses a learner's offset to a transform.
func (p *Positions) learners(note source.Note, part source.Partition, at int64) error {
	whose := fmt.Sprintf("of model %q", note.Model)
	if note.Model == "" {
		whose = "of models by key"
	}
	return &Stop{
		Err:    fmt.Errorf("group %q is that of the learner %s, which has committed offset %d of %s: a transform that begins there would leave out everything before it", p.Group, whose, at, part),
		Remedy: "set another source.group: those that end in .learn belong to the learners of the groups without it",
	}
}

// nameless reports whether a committed offset is that of models by key that its builder did not name: former builds did not.
func (p *Positions) nameless(c source.Position) bool {
	note, err := source.ParseNote(c.Metadata)
	return p.Models != "" && c.Next >= 0 && err == nil && note.Version > 0 && note.Model == "" && note.Models == "" && note.Since == nil
}

// heir reports whether what former builds left without a name is that of these models: they have checkpoints, in any partition, for one whose records
// have no key has none; and no others have begun in this partition with a name. seen are the markers of Starts. Where nothing is without a name it does not matter, and is not looked for.
func (p *Positions) heir(ctx context.Context, seen map[string]Start, committed map[source.Partition]source.Position) (bool, error) {
	left := false
	for part, c := range committed {
		_, marked := seen[markerKey(p.Group, part)]
		left = left || marked || p.nameless(c)
	}
	if p.Models == "" || !left {
		return false, nil
	}
	for key := range seen {
		if strings.HasPrefix(key, markersOf(p.Group, p.Topic)+"models/") && !strings.HasPrefix(key, p.models()+"/") {
			return false, nil
		}
	}
	if p.Starts.Saved() || p.Firsts == nil {
		return p.Starts.Saved(), nil
	}
	home, err := p.Firsts.Home.Read(ctx)
	if err != nil {
		return false, err
	}
	_, saved, err := p.Firsts.everywhere(ctx, home)
	return saved, err
}

// ours is Ours, where heir says whether what is nameless is that of these models.
func (p *Positions) ours(c source.Position, heir bool) bool {
	return p.Ours(c) && (heir || !p.nameless(c))
}

// marker returns the start marker of a partition. Former builds did not name the models there, either.
func (p *Positions) marker(seen map[string]Start, part source.Partition, heir bool) (m Start, begun bool) {
	if m, begun = seen[p.markerKey(part)]; !begun && p.Models != "" && heir {
		m, begun = seen[markerKey(p.Group, part)]
	}
	return m, begun
}

// returns is where models go on that have begun, and have no committed offset: another learner has committed in their group since, or the offsets
// have expired.
func (p *Positions) returns(part source.Partition, m Start, f known) (int64, error) {
	if differ(m.TopicID, f.topic.ID) {
		return 0, p.recreated(m.TopicID, f.topic.ID, fmt.Sprintf("a start marker of partition %d", part.ID))
	}
	log := p.Log.With("group", p.Group, "partition", part.String(), "offset", m.Offset)
	if committed := f.committed[part].Next; committed >= 0 {
		log.Info("what is committed in the group of these models is not theirs: they go on at their start marker, and pass over what they have learnt", "committed", committed)
	} else {
		log.Warn("the committed offset of these models is gone: they go on at their start marker, and pass over what they have learnt")
	}
	return m.Offset, nil
}

// sayFirst says where a partition begins; committed is what another learner has committed of it, −1: nothing.
func (p *Positions) sayFirst(part source.Partition, at, committed int64) {
	log := p.Log.With("group", p.Group, "partition", part.String(), "offset", at)
	if committed >= 0 {
		log.Info("the models begin where a new group would: what is committed in their group is another learner's", "committed", committed)
		return
	}
	log.Info("a partition is read for the first time")
}
