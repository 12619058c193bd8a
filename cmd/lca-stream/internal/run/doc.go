// Package run holds the commands that work on a stream: run, learn, and transform of a topic or of files.
package run
