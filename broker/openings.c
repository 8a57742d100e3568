#include "broker/openings.h"

static void list_add(struct broker_opening_list *list, struct broker_opening_node *node)
{
    node->prev = list->last;
    node->next = NULL;
    if (list->last == NULL) list->first = node;
    else list->last->next = node;
    list->last = node;
}

static void list_remove(struct broker_opening_list *list, struct broker_opening_node *node)
{
    if (node->prev == NULL) list->first = node->next;
    else node->prev->next = node->next;
    if (node->next == NULL) list->last = node->prev;
    else node->next->prev = node->prev;
}

void broker_openings_init(struct broker_openings *openings, struct ot_exec *exec, uint32_t max)
{
    *openings = (struct broker_openings){ .exec = exec, .max = max == 0 ? UINT32_MAX : max };
    pthread_mutex_init(&openings->mutex, NULL);
}

void broker_openings_free(struct broker_openings *openings) { pthread_mutex_destroy(&openings->mutex); }

/* With the mutex held. */
static struct ot_task *take(struct broker_openings *openings)
{
    struct broker_opening_list *list = openings->wanted.first != NULL ? &openings->wanted : &openings->others;
    struct broker_opening_node *node = list->first;
    if (node == NULL || openings->running >= openings->max) return NULL;
    list_remove(list, node);
    *node->at = NULL;
    openings->running++;
    return node->task;
}

void broker_openings_add(struct broker_openings *openings, struct broker_opening_node *node)
{
    pthread_mutex_lock(&openings->mutex);
    node->wanted = false;
    *node->at = node;
    list_add(&openings->others, node);
    struct ot_task *task = take(openings);
    pthread_mutex_unlock(&openings->mutex);
    if (task != NULL) ot_exec_post(openings->exec, task);
}

void broker_openings_next(struct broker_openings *openings)
{
    pthread_mutex_lock(&openings->mutex);
    openings->running--;
    struct ot_task *task = take(openings);
    pthread_mutex_unlock(&openings->mutex);
    if (task != NULL) ot_exec_post(openings->exec, task);
}

void broker_openings_want(struct broker_openings *openings, struct broker_opening_node **at)
{
    pthread_mutex_lock(&openings->mutex);
    struct broker_opening_node *node = *at;
    if (node != NULL && !node->wanted) {
        list_remove(&openings->others, node);
        list_add(&openings->wanted, node);
        node->wanted = true;
    }
    pthread_mutex_unlock(&openings->mutex);
}
