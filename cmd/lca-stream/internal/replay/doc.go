// Package replay refits models from the history of a topic or from files, one of all rows or one of each value of
// model.by, and chooses ν and ν_g by rows that are held out.
package replay
