// Package house holds the rules of this tree that a program can check, as tests: which package may import
// which, how long a file and a function may be, that every package says what it is, that every file named
// in a comment or a page and every test named in a page exists, and that every equation of the paper that
// is cited stands in the table of lca/doc.go. CONTRIBUTING.md says why each rule exists.
//
// There is no code here but tests: run them with
//
//	go test ./internal/house
package house
