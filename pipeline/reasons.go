package pipeline

import (
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Codes of records that are refused in this package; the others are those of source, source/format and minibatch.
const (
	codeRowInvalid     = "row_invalid"      // a row with a bad feature, under source.on_invalid: dead_letter
	codeOutputTooLarge = "output_too_large" // its output is larger than the output topic takes
	codeNotAvro        = "output_not_avro"  // it has several rows, or a type that Avro does not have, under transform.format: avro
	codeRefused        = "refused"          // an error without a code of its own
)

// reasonNoModel counts rows that are dropped before the first model, under transform.until_model: drop, and records that pass without
// one, under pass_through.
const reasonNoModel = "no_model"

// reasonNoKey is the reason of rows without a value of model.by, and the code of messages that are set aside for it.
const reasonNoKey = "no_key"

// codeModelsDiffer is the code of a message whose rows have models of different features.
const codeModelsDiffer = "models_differ"

// Reasons for which records are not whitened though nothing is wrong with them.
const (
	reasonTombstone = "tombstone" // a null value goes on as it is
	reasonSkipped   = "skipped"   // skipped by an operator's choice
	reasonGap       = "gap"       // deleted before it was read
	reasonNoRows    = "no_rows"   // a message without rows, which has no output
)

var passedReasons = []string{reasonTombstone, reasonSkipped, reasonGap, reasonNoRows, reasonNoModel}

// rowReasons are the reasons for which rows are rejected.
var rowReasons = []string{
	minibatch.ReasonWidth.String(), minibatch.ReasonText.String(), minibatch.ReasonNull.String(), minibatch.ReasonNaN.String(), minibatch.ReasonInf.String(),
	reasonNoModel, reasonNoKey,
}

// recordCodes are the reasons for which whole records are set aside.
var recordCodes = append(format.Codes(),
	source.CodeBatchInvalid, source.CodeBatchDamaged,
	minibatch.CodeMissing, minibatch.CodeWidth, minibatch.CodeType, minibatch.CodeAmbiguous, minibatch.CodeNone, minibatch.CodeUnknown, minibatch.CodeCorrupt,
	CodeOutputColumnExists, codeRowInvalid, codeOutputTooLarge, codeNotAvro, codeRefused, reasonNoKey, codeModelsDiffer,
	modelkey.CodeType, modelkey.CodeAmbiguous, modelkey.CodeCorrupt,
)
