package transform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// offlineBytes is about how many bytes of our columns are made at a time: few enough for a processor's cache, and enough that
// a batch of the output is worth its metadata.
const offlineBytes = 4 << 20

// Offline whitens rows of files and pipes as Transform whitens those of a topic: the values are the same to the bit.
type Offline struct {
	transform *Transform
	rows      int64 // at most, of one batch of the output

	// Places says where a row of a message is, by its number in the message; nil: counted on from Message.Row.
	Places func(row int) episode.Place
	// Said is called with each record of an episode; nil: they are dropped.
	Said func(episode.Record)
}

// Judged is a row by which episodes are told.
type Judged struct {
	Series string // as in the key of its state
	At     episode.Place
	Score  float64
	By     *recent.Evaluator
	Rate   float64 // budget of false episodes per row
}

// Judge has each called with every row by which episodes are told, in order.
func (o *Offline) Judge(each func(Judged)) { o.transform.judged = each }

// Watch has episodes told at the budget of rates, which know the rows by the offsets of their places.
func (o *Offline) Watch(rates *episode.Rates) { o.transform.rates = rates }

// SilenceRows is after how many messages, of any series, it is looked which series are silent.
const SilenceRows = seriesBlock

// Silence closes the episodes of series without a row for so long, by the clock of the rates, that nothing is known of them.
func (o *Offline) Silence(of source.Partition, now time.Duration) {
	t := o.transform
	t.records = t.records[:0]
	t.series.silent(now)
	t.tellEpisodes(of)
	for _, r := range t.records {
		o.Said(r)
	}
}

// Open are the episodes that are open, as they are behind the last row: the causes are those of now, and not those of the last record.
func (o *Offline) Open(of source.Partition) []episode.Record {
	t := o.transform
	if m := t.Follow.Current(); m != nil && m.Model.Recent != nil {
		for _, one := range t.series.open {
			if one.model == m.ModelID && one.cause != nil && one.cause.Columns() == m.Model.Recent.Dim {
				one.causes = causesOf(one.cause.Clone().Now(m.Model.Recent, namedCauses), m.Features)
			}
		}
	}
	return t.openEpisodes(of)
}

// NewOffline returns an Offline with a model; nil: rows pass with null results until Adopt. What c says of topics does not count.
func NewOffline(model *snapshot.Snapshot, c TransformConfig) *Offline {
	c.Follow, c.UntilModel = new(models.Follow), PassThrough
	c.DeadLetter, c.Alarms, c.Output.Format = reject.DeadLetter{}, Alarms{}, encode.FormatArrow
	o := &Offline{transform: &Transform{TransformConfig: c}}
	if o.bound(c.Columns); model != nil {
		o.Adopt(model)
	}
	return o
}

// bound sets the rows of a batch.
func (o *Offline) bound(features []string) {
	o.rows = max(1, offlineBytes/max(1, o.transform.Output.Added(features)))
}

// Of says that the model, and so the only series, is that of a value.
func (o *Offline) Of(value string) { o.transform.value, o.transform.oneSeries = &value, true }

// Adopt has the rows to come whitened with another model.
func (o *Offline) Adopt(model *snapshot.Snapshot) {
	c := &o.transform.TransformConfig
	c.Follow.ModelID = model.ModelID
	c.Follow.Adopt(&stats.PublishedModel{Snapshot: model})
	o.bound(model.Features)
}

// Begin says what the series of a value is before its first row, nil is the value of rows without one; a zero Series is one that begins.
func (o *Offline) Begin(series func(value []byte) *recent.Series) { o.transform.series.begin = series }

// Schema returns the schema of the output of rows of a schema, or why they cannot be whitened.
func (o *Offline) Schema(in *arrow.Schema) (*arrow.Schema, error) {
	c := &o.transform.TransformConfig
	model := c.Follow.Current()
	out := encode.NewOutput(c.Output)
	if err := out.Check(in, model.Model.Dim); err != nil {
		return nil, err
	}
	return out.Out, nil
}

// Take whitens the rows of a message and hands over each batch of the output: an Arrow IPC stream in pieces, which are good until put returns.
// Any fault of the message is an error, because the output would have fewer rows than the input.
func (o *Offline) Take(ctx context.Context, m *source.Message, put func(pieces ...[]byte) error) error {
	if m.Err != nil {
		return m.Err
	}
	for from := int64(0); from == 0 || from < m.Record.NumRows(); from += o.rows {
		part := *m
		o.transform.placeOf = func(row int) episode.Place {
			if row += int(from); o.Places != nil {
				return o.Places(row)
			}
			return episode.Place{Row: m.Row + row}
		}
		part.Record = m.Record.NewSlice(from, min(m.Record.NumRows(), from+o.rows))
		part.Row += int(from)
		err := o.whiten(ctx, part, put)
		part.Record.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *Offline) whiten(ctx context.Context, m source.Message, put func(pieces ...[]byte) error) error {
	work, err := o.transform.Do(ctx, source.Batch{Messages: []source.Message{m}})
	var cause *source.RecordError
	if errors.As(err, &cause) { // a transform advises a dead-letter topic
		return fmt.Errorf("%s, from row %d on: %w", m.Partition.Topic, m.Row, cause.Err)
	}
	if err != nil {
		return err
	}
	for _, out := range work.Messages {
		if err := put(append([][]byte{out.Value}, out.Rest...)...); err != nil {
			return err
		}
	}
	for _, r := range o.transform.records {
		if o.Said != nil {
			o.Said(r)
		}
	}
	o.transform.Kept()
	return nil
}
