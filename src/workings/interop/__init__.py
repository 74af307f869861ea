"""Export and import of models: CTranslate2, and GPT-2 and Marian as Hugging Face stores them."""
