// Which command a program's methods answer, for libraries that can do all of it and for others.

package main

// answers is what a method of a program looks like.
type answers = func(*Command) (any, error)

// everything is what each library can do.
type everything interface {
	openProducer(*Command) (any, error)
	produce(*Command) (any, error)
	openConsumer(*Command) (any, error)
	subscribe(*Command) (any, error)
	assign(*Command) (any, error)
	poll(*Command) (any, error)
	seek(*Command) (any, error)
	commit(*Command) (any, error)
	committed(*Command) (any, error)
	offsetsAt(*Command) (any, error)
	openAdmin(*Command) (any, error)
	createTopics(*Command) (any, error)
	deleteTopics(*Command) (any, error)
	listTopics(*Command) (any, error)
	describeTopics(*Command) (any, error)
	createPartitions(*Command) (any, error)
	describeConfigs(*Command) (any, error)
	alterConfigs(*Command) (any, error)
	replaceConfigs(*Command) (any, error)
	listOffsets(*Command) (any, error)
	describeCluster(*Command) (any, error)
	listGroups(*Command) (any, error)
	describeGroup(*Command) (any, error)
	groupOffsets(*Command) (any, error)
	alterGroupOffsets(*Command) (any, error)
	deleteGroupOffsets(*Command) (any, error)
	deleteGroup(*Command) (any, error)
}

// transacting is what libraries with transactions can do.
type transacting interface {
	begin(*Command) (any, error)
	sendOffsets(*Command) (any, error)
	commitTransaction(*Command) (any, error)
	abortTransaction(*Command) (any, error)
	listTransactions(*Command) (any, error)
	describeTransaction(*Command) (any, error)
}

type pausing interface {
	pause(*Command) (any, error)
	resume(*Command) (any, error)
}

type positioned interface {
	position(*Command) (any, error)
}

type deletingRecords interface {
	deleteRecords(*Command) (any, error)
}

// commandsOf is the method for each command; what the library cannot do is left out.
func commandsOf(it everything) map[string]answers {
	commands := map[string]answers{
		"open_producer":        it.openProducer,
		"produce":              it.produce,
		"open_consumer":        it.openConsumer,
		"subscribe":            it.subscribe,
		"assign":               it.assign,
		"poll":                 it.poll,
		"seek":                 it.seek,
		"commit":               it.commit,
		"committed":            it.committed,
		"offsets_at":           it.offsetsAt,
		"open_admin":           it.openAdmin,
		"create_topics":        it.createTopics,
		"delete_topics":        it.deleteTopics,
		"list_topics":          it.listTopics,
		"describe_topics":      it.describeTopics,
		"create_partitions":    it.createPartitions,
		"describe_configs":     it.describeConfigs,
		"alter_configs":        it.alterConfigs,
		"replace_configs":      it.replaceConfigs,
		"list_offsets":         it.listOffsets,
		"describe_cluster":     it.describeCluster,
		"list_groups":          it.listGroups,
		"describe_group":       it.describeGroup,
		"group_offsets":        it.groupOffsets,
		"alter_group_offsets":  it.alterGroupOffsets,
		"delete_group_offsets": it.deleteGroupOffsets,
		"delete_group":         it.deleteGroup,
	}
	if able, ok := it.(transacting); ok {
		commands["begin"] = able.begin
		commands["send_offsets"] = able.sendOffsets
		commands["commit_transaction"] = able.commitTransaction
		commands["abort_transaction"] = able.abortTransaction
		commands["list_transactions"] = able.listTransactions
		commands["describe_transaction"] = able.describeTransaction
	}
	if able, ok := it.(pausing); ok {
		commands["pause"] = able.pause
		commands["resume"] = able.resume
	}
	if able, ok := it.(positioned); ok {
		commands["position"] = able.position
	}
	if able, ok := it.(deletingRecords); ok {
		commands["delete_records"] = able.deleteRecords
	}
	return commands
}
