package brain

import (
	"slices"

	"pawl/internal/text"
)

// The classes of questions that ContextFallback tells apart.
const (
	longQuestion = 50 // words
)

var (
	emotional = []string{
		"afraid", "alone", "angry", "anxiety", "anxious", "ashamed", "cry", "crying", "depressed", "depression", "desperate", "grief", "guilty", "hopeless",
		"hurt", "hurting", "lonely", "miserable", "overwhelmed", "panic", "sad", "scared", "stressed", "suffering", "terrified", "trauma", "upset", "worried",
	}
	inquiring = []string{"explain", "how", "what", "when", "where", "which", "who", "why"}
)

// Generic is what is said in place of a reply that is not good enough.
func Generic(string) string {
	return "I do not have an answer to this that I can stand behind. Please ask again in other words, or with more detail."
}

// ContextFallback says it by what was asked: to somebody who is upset, who wants to know something, or who said very much at once.
func ContextFallback(question string) string {
	words := text.Words(question)
	has := func(any []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(any, w) })
	}
	switch {
	case has(emotional):
		return "What you describe sounds hard, and I want to do it justice. I do not have a reply that is good enough yet. Tell me a little more about " +
			"what would help you most now; and if you are in danger, please turn to somebody near you or to an emergency line."
	case has(inquiring):
		return "I could not put together an answer to your question that I can stand behind. It may help to ask for one thing at a time, or to say " +
			"what you know already; for something that matters, please check a source that you trust."
	case len(words) > longQuestion:
		return "There is much in what you wrote, and I could not do all of it justice at once. What should we begin with?"
	}
	return Generic(question)
}
