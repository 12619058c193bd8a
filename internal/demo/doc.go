// Package demo holds what `lca-stream demo` needs besides the product itself: the paper's toy
// streams (section 6.1) and the digits, and a judge that clusters records and compares the result
// with the labels that the learner never sees. Nothing of it is on the data path.
package demo
