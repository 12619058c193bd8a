// Package reject is what becomes of messages and rows that cannot be used: the reasons by which they are counted, dead letters, what is
// said of them, and the faults at which the process stops.
//
// Begin with [DeadLetter], which makes a dead letter of a message or returns the [Stop], and with [DeadLog], which logs what was set
// aside: the first of each reason at once, then a line a minute. The names of our headers, and the [Carry] that keeps those of the
// input, are here too, because every other room reads or writes some of them.
//
// Nothing here reads or writes Kafka. The number of reasons is bounded, and so is what is remembered of them.
package reject

import (
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/enum"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Stop is a fault of the data or the configuration that needs a person. Nothing is lost.
type Stop struct {
	Err    error
	Remedy string // what to do
}

// Error says what happened and what to do.
func (s *Stop) Error() string {
	if s.Remedy == "" {
		return "pipeline: " + s.Err.Error()
	}
	return "pipeline: " + s.Err.Error() + ": " + s.Remedy
}

// Unwrap returns the cause.
func (s *Stop) Unwrap() error { return s.Err }

// Bad is an error of a message with its place and code.
func Bad(m *source.Message, code string, err error) *source.RecordError {
	return &source.RecordError{Partition: m.Partition, Offset: m.Offset, Code: code, Err: err}
}

// InvalidRow is an error of a message under source.on_invalid: dead_letter, which sets it aside whole for one of its rows.
func InvalidRow(m *source.Message, row int, reason minibatch.Reason) *source.RecordError {
	return Bad(m, CodeRowInvalid, fmt.Errorf("row %d has a feature that is %v", row, reason))
}

// Place is where an event has shown: at a row, or for an event of the learner in a record.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Row       *int   `json:"row"`
}

// OnInvalid says what happens to a row with a null, text, NaN or Inf feature. Learners leave such rows out, or the whole message where that is set aside, or
// stop at them.
type OnInvalid uint8

var onInvalids = enum.Names[OnInvalid]{NullRow: "null", RejectRow: "dead_letter", StopAtRow: "stop", ImputeRow: "impute"}

// Check refuses what is no OnInvalid.
func (o OnInvalid) Check() error {
	return onInvalids.Check(o, "pipeline: unknown source.on_invalid")
}

// String returns the name that the configuration uses.
func (o OnInvalid) String() string { return onInvalids.Of(o) }

// OnInvalids returns every OnInvalid.
func OnInvalids() []OnInvalid { return onInvalids.All() }

// The policies of source.on_invalid; the zero value is NullRow.
const (
	NullRow   OnInvalid = iota // the row is kept, its lca is null
	RejectRow                  // its message goes to the dead-letter topic
	StopAtRow                  // the process stops
	ImputeRow                  // missing features are filled by their conditional mean; a row with an infinity is kept, its lca is null
)

// StopAtInvalid is the end of the process at an invalid row, under source.on_invalid: stop.
func StopAtInvalid(m *source.Message, row int, reason minibatch.Reason) *Stop {
	return &Stop{
		Err:    fmt.Errorf("%s@%d: row %d has a feature that is %v", m.Partition, m.Offset, row, reason),
		Remedy: "fix the producer, or set source.on_invalid to null, impute or dead_letter",
	}
}

// Codes of records that are refused in this package; the others are those of source, source/format and minibatch.
const (
	CodeRowInvalid     = "row_invalid"      // a row with a bad feature, under source.on_invalid: dead_letter
	CodeOutputTooLarge = "output_too_large" // its output is larger than the output topic takes
	CodeNotAvro        = "output_not_avro"  // it has several rows, or a type that Avro does not have, under transform.format: avro
	CodeRefused        = "refused"          // an error without a code of its own
)

// ReasonNoModel counts rows that are dropped before the first model, under transform.until_model: drop, and records that pass without
// one, under pass_through.
const ReasonNoModel = "no_model"

// ReasonNoKey is the reason of rows without a value of model.by, and the code of messages that are set aside for it.
const ReasonNoKey = "no_key"

// CodeModelsDiffer is the code of a message whose rows have models of different features.
const CodeModelsDiffer = "models_differ"

// Reasons for which records are not whitened though nothing is wrong with them.
const (
	ReasonTombstone = "tombstone" // a null value goes on as it is
	reasonSkipped   = "skipped"   // skipped by an operator's choice
	ReasonGap       = "gap"       // deleted before it was read
	ReasonNoRows    = "no_rows"   // a message without rows, which has no output
)

// PassedReasons are the reasons for which records are not whitened and are no fault.
var PassedReasons = []string{ReasonTombstone, reasonSkipped, ReasonGap, ReasonNoRows, ReasonNoModel}

// RowReasons are the reasons for which rows are rejected.
var RowReasons = []string{
	minibatch.ReasonWidth.String(), minibatch.ReasonText.String(), minibatch.ReasonNull.String(), minibatch.ReasonNaN.String(), minibatch.ReasonInf.String(),
	ReasonNoModel, ReasonNoKey,
}

// RecordCodes are the reasons for which whole records are set aside.
var RecordCodes = append(format.Codes(),
	source.CodeBatchInvalid, source.CodeBatchDamaged,
	minibatch.CodeMissing, minibatch.CodeWidth, minibatch.CodeType, minibatch.CodeAmbiguous, minibatch.CodeNone, minibatch.CodeUnknown, minibatch.CodeCorrupt,
	CodeOutputColumnExists, CodeRowInvalid, CodeOutputTooLarge, CodeNotAvro, CodeRefused, ReasonNoKey, CodeModelsDiffer,
	modelkey.CodeType, modelkey.CodeAmbiguous, modelkey.CodeCorrupt,
)

// CodeOutputColumnExists is the code of an OutputError: an input column has the name of one of ours.
const CodeOutputColumnExists = "output_column_exists"

// Headers of checkpoints and snapshots, by which an index needs no value.
const (
	HeaderLearnt    = "lca-learnt-offset"
	HeaderPublished = "lca-published"
	HeaderDim       = "lca-d"
	HeaderVersion   = "lca-model-version"
	HeaderLastRow   = "lca-last-row"
	HeaderWaits     = "lca-waits"
	HeaderRetired   = "lca-retired"
	HeaderGroup     = "lca-group"
	HeaderBy        = "lca-model-by"
)

// Headers that say what a record was made of.
const (
	HeaderSourceTopic      = "lca-source-topic"
	HeaderSourcePartition  = "lca-source-partition"
	HeaderSourceOffset     = "lca-source-offset"
	HeaderSourceLastOffset = "lca-source-last-offset" // of a batch
)

// ContentType is the header with the type of a value; reserved begins the names of all headers that are ours, and carried those that an lca-stream before us has set.
const (
	ContentType = "content-type"
	reserved    = "lca-"
	carried     = "lca-upstream-"
)

// Carry appends the input's own headers to dst. Where the input is the output of another lca-stream its headers
// have our names, and a reader that looks for one would find two: so theirs are renamed. What was renamed before
// is left out, because headers would grow with each stage of a chain. The type is that of the value, which
// may change.
func Carry(dst, headers []source.Header, withType bool) []source.Header {
	for _, h := range headers {
		switch {
		case h.Key == ContentType && !withType:
		case !strings.HasPrefix(h.Key, reserved):
			dst = append(dst, h)
		case !strings.HasPrefix(h.Key, carried):
			dst = append(dst, source.Header{Key: carried + h.Key[len(reserved):], Value: h.Value})
		}
	}
	return dst
}

// Text is a header of text.
func Text(key, value string) source.Header { return source.Header{Key: key, Value: []byte(value)} }

// sliceCost is about how many products of numbers are made between two looks at whether the work is
// still wanted: a second or a few. A batch of many columns, or against many neighbours, takes minutes,
// and a group waits 30 s for a member before it gives the partition to another, which would begin the
// same batch, be in the way of the next division, and so on without end.
const sliceCost = 1 << 32

// SliceNumbers is how many numbers of a message are gathered, and whitened, at a time: 1 MiB of float64.
// A message may have a thousand times as many rows as that, and its numbers as float64 eight times as
// many bytes as it decodes to.
const SliceNumbers = 128 << 10

// SliceRows returns the number of rows that cost sliceCost, or hold SliceNumbers numbers, whichever is less.
func SliceRows(dim, neighbourNumbers int) int {
	return min(max(1, sliceCost/max(1, dim*dim+neighbourNumbers)), SliceOf(dim))
}

// SliceOf returns the number of rows of dim numbers that are gathered at a time.
func SliceOf(dim int) int { return max(1, SliceNumbers/max(1, dim)) }

// Readable finds out whether the features can be read from all rows of a record, so that none are used of one
// where they cannot. Where the record is a single slice, rows has it then.
func Readable(f *minibatch.Features, rows *minibatch.Rows, rec arrow.Record) error {
	return GatherEach(f, rows, rec, func(int) error { return nil })
}

// EachSlice gathers a record that is readable slice by slice, and hands each over by its first row. One that is a
// single slice is in rows already.
func EachSlice(f *minibatch.Features, rows *minibatch.Rows, rec arrow.Record, take func(first int) error) error {
	if int(rec.NumRows()) <= SliceOf(f.Dim()) {
		return take(0)
	}
	return GatherEach(f, rows, rec, take)
}

// GatherEach gathers a record slice by slice, and hands each over by its first row.
func GatherEach(f *minibatch.Features, rows *minibatch.Rows, rec arrow.Record, take func(first int) error) error {
	n, step := int(rec.NumRows()), SliceOf(f.Dim())
	if n <= step {
		if err := f.Gather(rows, rec); err != nil {
			return err
		}
		return take(0)
	}
	for first := 0; first < n; first += step {
		part := rec.NewSlice(int64(first), int64(min(first+step, n)))
		err := f.Gather(rows, part)
		part.Release()
		if err == nil {
			err = take(first)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
