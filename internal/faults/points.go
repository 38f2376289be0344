package faults

// Operation is one kind of thing that is made durable. It is a kind of content, not a method of the store: one Apply may be
// several of them.
type Operation string

// The operations at which a process can die.
const (
	CreateRun      Operation = "create run"
	ClaimRun       Operation = "claim"
	RenewLease     Operation = "renew lease"
	JournalEntry   Operation = "journal entry"
	NodeCommit     Operation = "node commit"
	EventAppend    Operation = "event append"
	QuestionOpened Operation = "question opened"
	AnswerAccepted Operation = "answer accepted"
	Timer          Operation = "timer set or fired"
	RetryScheduled Operation = "retry scheduled"
	CancelRun      Operation = "cancel"
	ForkRun        Operation = "fork"
	ChildRun       Operation = "child spawned or joined"
	EachBarrier    Operation = "each barrier"
	ExpireRuns     Operation = "expiry"
	MigrateRun     Operation = "migration"
	BackgroundRun  Operation = "background start"
)

// Operations are all of them. A test fails when classify finds one that is not listed here.
var Operations = []Operation{
	CreateRun, ClaimRun, RenewLease, JournalEntry, NodeCommit, EventAppend, QuestionOpened, AnswerAccepted, Timer,
	RetryScheduled, CancelRun, ForkRun, ChildRun, EachBarrier, ExpireRuns, MigrateRun, BackgroundRun,
}

// Position says where in the operation the process dies.
type Position string

// The positions. What happens in each of them is said at Store.
const (
	Before Position = "before the transaction"
	Inside Position = "inside, before the commit"
	After  Position = "after the commit, before the acknowledgement"
)

// Positions are all of them.
var Positions = []Position{Before, Inside, After}

// Point is a place at which a process dies.
type Point struct {
	Operation Operation
	Position  Position
}

func (p Point) String() string { return string(p.Operation) + ", " + string(p.Position) }

// Points are the 51 crash points.
func Points() (all []Point) {
	for _, o := range Operations {
		for _, p := range Positions {
			all = append(all, Point{o, p})
		}
	}
	return all
}
