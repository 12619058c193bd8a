package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Owner identifies the pipeline that a model belongs to: the one of a group that learns from a topic. Two pipelines
// with one model id would overwrite each other's checkpoints, and whiten with each other's models.
type Owner struct {
	Group string `json:"group"` // source.group
	Topic string `json:"topic"` // source.topic
}

// String describes the owner in words.
func (o Owner) String() string {
	if o.Group == "" {
		return fmt.Sprintf("topic %q", o.Topic)
	}
	return fmt.Sprintf("topic %q in group %q", o.Topic, o.Group)
}

// A claim is a record with the key MODEL_ID/owner/HASH and an Owner as JSON for its value. HASH is the first 16
// hexadecimal digits of SHA-256 of the group, a byte 0 and the topic. Each claimant has a key of its own, so that
// compaction keeps the first claim, which is the one that counts. Checkpoints name their owner themselves: claims
// decide before there is one.
const claimPrefix = "owner/"

// Putter is the part of a sink that claims and first positions need: messages and claim become visible together, or neither does.
type Putter interface {
	Put(context.Context, []sink.Message, source.Claim) error
}

// Claim is the record that claims the model, or withdraws the claim.
func (t *Checkpoints) Claim(withdraw bool) sink.Message {
	sum := sha256.Sum256([]byte(t.Owner.Group + "\x00" + t.Owner.Topic))
	m := sink.Message{Topic: t.Topic, Key: fmt.Appendf(nil, "%s/%s%x", t.ModelID, claimPrefix, sum[:8])}
	if !withdraw {
		m.Value, _ = json.Marshal(t.Owner) // of two strings: it cannot fail
		if t.By == "" {                    // of models by key none has this id
			m.Headers = []source.Header{reject.Text("lca-model-id", t.ModelID)}
		}
	}
	return m
}

// takeClaim stores a claim. It returns false if the rest of a key is not that of a claim.
func (f *Found) takeClaim(rest string, value []byte) bool {
	if hash, ok := strings.CutPrefix(rest, claimPrefix); !ok || strings.Contains(hash, "/") {
		return false
	}
	var o Owner
	if json.Unmarshal(value, &o) == nil && o.Group != "" && !slices.Contains(f.claims, o) {
		f.claims = append(f.claims, o)
	}
	return true
}

// owner returns the owner of the model, zero if it has none yet. c is its newest checkpoint or nil. A checkpoint of
// the first format tells only the topic. A claim with another topic does not count then, because the checkpoint's writer
// did not read claims.
func (f *Found) owner(c *Checkpoint) Owner {
	switch {
	case c != nil && c.Owner.Group != "":
		return c.Owner
	case c != nil && len(c.Offsets) > 0:
		o := Owner{Topic: c.Offsets.Partitions()[0].Topic}
		if len(f.claims) > 0 && f.claims[0].Topic == o.Topic {
			o = f.claims[0]
		}
		return o
	case len(f.claims) > 0:
		return f.claims[0]
	}
	return Owner{}
}

// mine refuses a model of another pipeline.
func (t *Checkpoints) mine(o Owner) error {
	if t.Owner == (Owner{}) || o == (Owner{}) || o == t.Owner || (o.Group == "" && o.Topic == t.Owner.Topic) {
		return nil
	}
	if t.By != "" {
		return ForeignByKey(t.ModelID, t.Topic, o, t.Owner)
	}
	return Foreign(t.ModelID, t.Topic, o, t.Owner)
}

// Foreign returns the reason to stop for a learner whose model id another pipeline uses.
func Foreign(modelID, topic string, theirs, ours Owner) error {
	return &reject.Stop{
		Err: fmt.Errorf("model %q on topic %s belongs to the learner of %v, and this one is of %v", modelID, topic, theirs, ours),
		Remedy: "give this pipeline a model of its own by another snapshot.model_id, or topics of its own by snapshot.topic and checkpoint.topic; " +
			"to go on from that model, `snapshot export` it and start with `learn --from-snapshot FILE`",
	}
}

// Mine refuses models that another pipeline has saved or claimed, as far as is committed so far. It changes nothing.
func (t *Checkpoints) Mine(ctx context.Context) error {
	f, err := t.read(ctx, t.Stable)
	if err != nil {
		return err
	}
	c, err := f.newest()
	if err != nil {
		return err
	}
	return t.mine(f.owner(c))
}

// Own makes sure, once the sink is open, that the model belongs to this pipeline. A model without an owner is
// claimed. Two pipelines that claim it at the same moment both read both claims, because each reads to the end after
// its own is committed. The first claim on the topic counts, and the other pipeline withdraws and stops. Neither
// fences the other, because their transactional ids differ.
func (t *Checkpoints) Own(ctx context.Context, k Putter) error {
	for wait := retry.First; ; wait = retry.Longer(wait) {
		f, err := t.read(ctx, t.End)
		if err != nil {
			return err
		}
		c, err := f.newest()
		if err != nil {
			return err
		}
		o := f.owner(c)
		if err := t.mine(o); err != nil {
			if slices.Contains(f.claims, t.Owner) {
				_ = k.Put(ctx, []sink.Message{t.Claim(true)}, source.Claim{}) // a claim that stays does no harm: it is not the first
			}
			return err
		}
		if o.Group != "" || t.Owner == (Owner{}) {
			t.ahead = f
			return nil
		}
		err = k.Put(ctx, []sink.Message{t.Claim(false)}, source.Claim{})
		if err == nil {
			continue
		}
		if retry.Final(err) || !retry.Sleep(ctx, wait) {
			return err
		}
	}
}

// ForeignByKey is foreign for a model of many.
func ForeignByKey(modelID, topic string, theirs, ours Owner) error {
	err := Foreign(modelID, topic, theirs, ours)
	var stop *reject.Stop
	if errors.As(err, &stop) {
		stop.Remedy = "give this pipeline models of its own by another snapshot.model_id, or topics of its own by snapshot.topic and checkpoint.topic"
	}
	return err
}
