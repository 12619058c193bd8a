// Package toy holds the streams of `lca-stream demo`: the paper's toy data (section 6.1), and the digits. Nothing of it is
// on the data path.
package toy
