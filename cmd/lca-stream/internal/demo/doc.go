// Package demo shows the whole system on a broker inside this process: it streams toy data, whitens it live, and compares
// clusters with the labels that the learner never saw.
package demo
