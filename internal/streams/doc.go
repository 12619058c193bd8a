// Package streams holds streams whose law is known, and measures what the online learner makes of them: the NLL of rows
// that it has not seen, the share of rows that it refuses, its false alarms, and the rows that it needs after a change.
// All of it is test code.
//
// Begin with All; Stream.Draw gives the rows of one seed, and Measure learns them. The tests are short versions
// with fixed seeds. The benchmark measures all streams with both presets and writes them to the file that FLOORS names:
//
//	FLOORS=docs/quality/results/floors.json go test ./internal/streams -run "^$" -bench Floors -benchtime 1x -timeout 2h
//	WHY=docs/quality/results/why.json go test ./internal/streams -run "^$" -bench Why -benchtime 1x
package streams
