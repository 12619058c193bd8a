package minibatch

import "fmt"

// Codes of a FeatureError: short and stable, fit for a header or a metric label.
const (
	CodeMissing   = "feature_missing"   // a column of the model is not in the record
	CodeWidth     = "feature_width"     // a list column has another length than the model
	CodeType      = "feature_type"      // a column is there, but its type has no numbers
	CodeAmbiguous = "feature_ambiguous" // two columns have the name, or a name is given twice
	CodeNone      = "feature_none"      // no column of the schema can be a feature
	CodeUnknown   = "feature_unknown"   // the length of a list column cannot be read off this record
	CodeCorrupt   = "feature_corrupt"   // offsets or dictionary indices point outside the data
)

// FeatureError reports that a schema does not hold the features of the model, and what to do. It concerns the whole
// record; a bad row in a good record has a Reason instead.
type FeatureError struct {
	Code   string // one of the codes above
	Column string // "" if no single column is at fault
	Detail string // what was found and what to do about it
}

// Error returns the detail after the column. The code is for programs.
func (e *FeatureError) Error() string {
	if e.Column == "" {
		return "minibatch: " + e.Detail
	}
	return fmt.Sprintf("minibatch: column %q: %s", e.Column, e.Detail)
}

func featureError(code, column, format string, args ...any) *FeatureError {
	return &FeatureError{Code: code, Column: column, Detail: fmt.Sprintf(format, args...)}
}

// Reason is why a row cannot be used. If several apply, the first in this order is given: width, text, null, nan, inf.
type Reason uint8

// Reasons; the zero value is a good row.
const (
	ReasonNone  Reason = iota
	ReasonWidth        // a list of another length than the model
	ReasonNull         // a null feature, or a null list
	ReasonNaN          // a NaN feature
	ReasonInf          // a feature that is +Inf or −Inf
	ReasonText         // a feature that is text, or anything else but a number, in a column that may hold both
)

// String returns the label that metrics and headers use.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "none"
	case ReasonWidth:
		return "width"
	case ReasonNull:
		return "null"
	case ReasonNaN:
		return "nan"
	case ReasonInf:
		return "inf"
	case ReasonText:
		return "text"
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}
