package brain

// What makes a confidence, in thousandths, so that no sum is off by a binary fraction: a judge's 86 of 100 makes 752, which passes,
// and its 85 makes 745, which does not.
const (
	thousand     = 1000
	rulesPart    = 150 // 30 % of the 0.5 that a reply has when it passes the rules
	judgePoint   = 7   // 70 % of one of the judge's hundred points
	passing      = 750
	maxScore     = 25  // of each of the judge's four
	unjudged     = 0.5 // the confidence in a reply that passed the rules and that nobody could judge
	notValidated = "validator unavailable"
)

// Judgement is what a model says of a reply.
type Judgement struct {
	Relevance    int    `json:"relevance" jsonschema:"0 to 25: does it speak of what was asked"`
	Helpfulness  int    `json:"helpfulness" jsonschema:"0 to 25: can whoever asked do something with it"`
	Accuracy     int    `json:"accuracy" jsonschema:"0 to 25: is what it says true"`
	Completeness int    `json:"completeness" jsonschema:"0 to 25: does it leave nothing out that was asked for"`
	Feedback     string `json:"feedback" jsonschema:"what a better reply would do, in one or two sentences"`
}

// Sum is the judge's score, 0 to 100.
func (j Judgement) Sum() int { return j.Relevance + j.Helpfulness + j.Accuracy + j.Completeness }

// Confidence in a reply that passes the rules and has so many of the judge's hundred points: 0.5 · 0.3 + judge · 0.7.
func Confidence(judge int) float64 { return float64(rulesPart+judgePoint*judge) / thousand }

// Passes says whether a confidence is good enough.
func Passes(confidence float64) bool { return confidence >= float64(passing)/thousand }
