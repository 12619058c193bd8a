package pipeline

import (
	"context"

	"github.com/lca-stream/lca-stream/internal/arrowjson"
	"github.com/lca-stream/lca-stream/source"
)

// Text that is made of columns may be far larger than they are: NUL becomes six bytes, and each row repeats a value of a dictionary. So it
// is measured before it is made, counts in the memory of the process, and is made only as far as the output topic may take it.

// Becomes is at most how many bytes of text are made of a message's columns, without ours; 0: none, or those of its value. It is for
// source.KafkaConfig.
func (c *TransformConfig) Becomes(m *source.Message) int64 {
	as := c.Output.Format.of(m)
	if m.Record == nil || !c.Output.Passthrough || as == FormatArrow || as.copies(m.Format) {
		return 0
	}
	return arrowjson.Size(m.Record, mostWhitened)
}

// texts is at most about how many bytes of text are made of a batch in addition to what its messages take. It also finds out how many are made
// of one message.
func (t *Transform) texts(ctx context.Context, b *source.Batch, features []string) (size int64) {
	t.most = mostWhitened
	if t.Output.Format == FormatArrow {
		return 0
	}
	fresh := false
	t.most = t.mostText(ctx, false)
	each := t.Output.addedText(features)
	for i := range b.Messages {
		m := &b.Messages[i]
		if m.Record == nil || t.Output.Format.of(m) == FormatArrow {
			continue
		}
		one := m.Record.NumRows()*each + m.Becomes
		if m.Becomes == 0 {
			one += t.Becomes(m)
		}
		if one+int64(len(m.Value)) > int64(t.most) && !fresh {
			t.most, fresh = t.mostText(ctx, true), true // the topic may take more by now
		}
		size += min(one, int64(t.most))
	}
	return size
}

// mostText is how many bytes of text are made of one message.
func (t *Transform) mostText(ctx context.Context, again bool) int {
	if t.Takes == nil {
		return mostWhitened
	}
	if most := t.Takes(ctx, again); most > 0 {
		return min(most, mostWhitened)
	}
	return mostWhitened // the broker does not say
}
