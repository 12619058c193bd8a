// Package start decides where each partition is read from, and commits that before anything is read.
//
// Begin with [Positions]: [Positions.Open] for a transform, [Positions.Resume] for a learner, [Positions.Watch] while they run, and
// [Positions.Reset] for what an operator has chosen. [Gaps] decides what becomes of records that retention has deleted unread.
//
// A position may be in several places. The first of them that is there wins:
//
//	place                 who writes it                   when                          what it proves
//	checkpoint            the learner of one model        with each put                 all before its offsets is in the model, whatever is committed
//	outputs in topics     the transform                   with each put                 what is done: with the note on the committed offset
//	                                                                                    (source.Outputs) they tell one that is too old or too new
//	committed offset      the transform, models by key    with each put                 all before it is done
//	marker start/…/P      the transform, models by key    with the first put and each   the group has begun here: an offset that is missing is
//	                                                      renewal; by key, each put     lost, not new; models by key go on there
//	first start/…/first   the first process, or a reset   at the group's first start    where partitions begin that have none of these
//	source.start_offset   the configuration               before that                   nothing: it is what is wanted
//
// A partition that the first record does not name was found later, and begins at its first record.
//
// Each place names the topic's id: in a topic that was deleted and created again an offset means something else, and the process stops for a
// person to say what is wanted. It also stops where a marker is left, the offset is lost, and it is not certain that nothing was written since.
package start
