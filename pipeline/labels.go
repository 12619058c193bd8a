package pipeline

import (
	"strconv"
	"strings"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// labels are the headers of outputs that a partition and a model decide. They are made once.
type labels struct {
	model     *PublishedModel
	partition source.Partition
	fixed     []source.Header
}

// ofSource is where the headers of a group and its partition begin in fixed.
const ofSource = 2

// Headers that say what a record was made of.
const (
	headerSourceTopic      = "lca-source-topic"
	headerSourcePartition  = "lca-source-partition"
	headerSourceOffset     = "lca-source-offset"
	headerSourceLastOffset = "lca-source-last-offset" // of a batch
)

func (l *labels) of(id, group string, model *PublishedModel, p source.Partition) []source.Header {
	if l.fixed != nil && l.model == model && l.partition == p {
		return l.fixed
	}
	version := uint64(0)
	if model != nil {
		version = model.Version
	}
	l.model, l.partition = model, p
	l.fixed = []source.Header{
		text("lca-model-id", id),
		text(headerVersion, strconv.FormatUint(version, 10)),
		text(headerGroup, group),
		text(headerSourceTopic, p.Topic),
		text(headerSourcePartition, strconv.Itoa(int(p.ID))),
	}
	return l.fixed
}

// reserved begins the names of all headers that are ours, and carried those that an lca-stream before us has set.
const (
	contentType = "content-type"
	reserved    = "lca-"
	carried     = "lca-upstream-"
)

// carry appends the input's own headers to dst. Where the input is the output of another lca-stream its headers
// have our names, and a reader that looks for one would find two: so theirs are renamed. What was renamed before
// is left out, because headers would grow with each stage of a chain. The type is that of the value, which
// may change.
func carry(dst, headers []source.Header, withType bool) []source.Header {
	for _, h := range headers {
		switch {
		case h.Key == contentType && !withType:
		case !strings.HasPrefix(h.Key, reserved):
			dst = append(dst, h)
		case !strings.HasPrefix(h.Key, carried):
			dst = append(dst, source.Header{Key: carried + h.Key[len(reserved):], Value: h.Value})
		}
	}
	return dst
}

// wrap keeps key, timestamp and the input's own headers, and says what whitened the record.
func (t *Transform) wrap(m *source.Message, value []byte, rest [][]byte) sink.Message {
	d := t.made
	first := len(d.headers)
	keeps := t.Output.Format.keepsType(m)
	d.headers = carry(d.headers, m.Headers, keeps)
	if !keeps {
		d.headers = append(d.headers, mediaTypes[t.Output.Format.of(m)])
	}
	d.headers = append(d.headers, t.labels.of(t.Follow.ModelID, t.Group, t.model, m.Partition)...)
	return t.sealed(m, value, rest, first)
}

// pass makes the output of a message that nothing was done to: no model, and no value.
func (t *Transform) pass(m *source.Message) sink.Message {
	d := t.made
	first := len(d.headers)
	d.headers = carry(d.headers, m.Headers, true)
	d.headers = append(d.headers, t.labels.of(t.Follow.ModelID, t.Group, t.model, m.Partition)[ofSource:]...)
	return t.sealed(m, nil, nil, first)
}

// sealed is an output whose headers begin at first; the offset, and the time if it was changed, end them.
func (t *Transform) sealed(m *source.Message, value []byte, rest [][]byte, first int) sink.Message {
	d := t.made
	d.headers = append(d.headers, source.Header{Key: headerSourceOffset, Value: d.number(m.Offset)})
	at := m.Time
	if !t.bounds.permit(t.Topic, at, t.Now) {
		d.headers = append(d.headers, source.Header{Key: sourceTimestamp, Value: d.number(at.UnixMilli())})
		at = t.Now()
	}
	headers := d.headers[first:len(d.headers):len(d.headers)]
	return sink.Message{Topic: t.Topic, Partition: m.Partition.ID, Key: m.Key, Value: value, Rest: rest, Headers: headers, Time: at}
}
