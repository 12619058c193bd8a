package pipeline

import (
	"context"
	"fmt"

	"github.com/lca-stream/lca-stream/internal/logs"
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
// learner, of a transform or of another application is not.
func (p *Positions) Ours(c source.Position) bool {
	if c.Next < 0 || p.Models == "" {
		return true
	}
	note, err := source.ParseNote(c.Metadata)
	return err == nil && note.Models == p.Models
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
		log.WarnContext(logs.Unlimited(context.Background()), "the committed offset of these models is gone: they go on at their start marker, and pass over what they have learnt")
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
