def count(text):
    """The number of times that each word occurs in text."""
    words = {}
    for word in text.lower().split():
        words[word] = words.get(word, 0) + 1
    return words
