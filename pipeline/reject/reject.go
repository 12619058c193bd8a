package reject

import (
	"fmt"

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

// Place is where an event has shown: at a row, or for an event of the learner in a record.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Row       *int   `json:"row"`
}

// OnInvalid says what happens to a row with a null, text, NaN or Inf feature. Learners leave such rows out, or stop at them.
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
