// Package em is EM in pieces: `em expect` sums up a part of the rows, and `em maximize` makes the next model of all sums.
package em
