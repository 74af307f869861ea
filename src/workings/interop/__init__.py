"""Models to and from other people's formats: CTranslate2, and Hugging Face's GPT-2 and Marian."""
