// Package models is where a transform has its models from: the snapshot topic.
//
// Begin with [Follow], which keeps the newest whole snapshot of one model current, or with [KeyedModels], which finds the models of many
// values: an index of where each newest snapshot is, read to the end before the first output, and a cache of models in memory.
//
// A snapshot that does not fit, is damaged or is of a newer release is passed over and said; the current model stays. The index has one
// entry for each value, and the cache as many bytes as it is given.
package models
