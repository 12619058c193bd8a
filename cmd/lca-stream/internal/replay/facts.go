package replay

import (
	"context"
	"errors"

	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/source"
)

// readFacts reads what learners have accepted. Where the topic of alarms is not there, nothing was.
func (r *replay) readFacts(ctx context.Context) error {
	c := r.config
	if !c.Accepts() || r.flags.algorithm != stochastic {
		return nil
	}
	all, unread, owner := map[string][]*episode.Acceptance{}, 0, r.system.Ours()
	err := r.system.EachCommitted(ctx, c.Alarms.Topic, func(_ source.Partition, got *source.Fetched) {
		for i := range got.Records {
			switch a, err := episode.ReadAcceptance(got.Records[i].Value, episode.AcceptFact); {
			case err != nil:
				unread++
			case a != nil && a.Group == owner.Group && a.Topic == owner.Topic:
				all[a.ModelID] = append(all[a.ModelID], a)
			}
		}
	})
	if unread > 0 {
		r.log.Warn("records that say what was accepted cannot be read: they are passed over", "topic", c.Alarms.Topic, "records", unread)
	}
	r.facts = map[string]*learn.Facts{}
	for id, facts := range all {
		r.facts[id] = learn.NewFacts(facts, r.end)
	}
	if errors.Is(err, source.ErrNoTopic) {
		return nil
	}
	return err
}
