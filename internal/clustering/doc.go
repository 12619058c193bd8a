// Package clustering judges a metric: it clusters records and compares the result with labels that the learner never
// sees. Nothing of it is on the data path.
package clustering
