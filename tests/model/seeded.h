/* A fault is seeded at run time, by its number in the environment: a model is compiled once for all of them. */
byte bug;
inline seed() { c_code { { char *text = getenv("MODEL_BUG"); now.bug = text == NULL ? 0 : (unsigned char)atoi(text); } } }
